"""Certifies texts with a checkpoint: prints the predicted class and the certified radius.

python -m examples.certify_a_checkpoint runs/first/checkpoints/best.ckpt "not a bad evening"
"""

import sys
from collections.abc import Sequence

import certify
import lit_modules


def main(arguments: Sequence[str]) -> None:
    """Load a checkpoint, certify texts and print a line for each.

    Args:
        arguments: the checkpoint, then one or more texts.
    """
    if len(arguments) < 2:
        sys.exit(__doc__)
    path, *texts = arguments
    # A checkpoint has its method, its vocabulary and its classes: nothing else is needed.
    model = lit_modules.load(path)
    if not isinstance(model, lit_modules.TaskModule):
        sys.exit(f"got a checkpoint of {type(model).__name__}, expected one of a classifier")
    _, class_names = model.require_text()
    certificates = certify.certify(model, texts)
    for text, prediction, radius in zip(
        texts, certificates.prediction, certificates.radius, strict=True
    ):
        # No perturbation of the embedded text that is shorter than the radius changes the class.
        print(f"{class_names[int(prediction)]}, certified radius {float(radius):.3f}: {text}")
    if model.no_certificate is not None:
        print(f"no certificate: {model.no_certificate}")


if __name__ == "__main__":
    main(sys.argv[1:])
