"""FreeLB++: FreeLB with more steps, and without a ball (Li et al., 2021)."""

from attacks.embeddings.pgd import Norm
from lit_modules.adversaries.freelb import FreeLB


class FreeLBPlus(FreeLB):
    """Trains on the mean loss over many steps of a perturbation that no ball limits.

    Li et al., "Searching for an Effective Defender: Benchmarking Defense against Adversarial Word
    Substitution", 2021: FreeLB (`FreeLB`) without its projection, and with more steps.
    """

    def __init__(
        self,
        *,
        steps: int = 10,
        step_size: float = 0.03,
        initial_size: float = 0.05,
        norm: Norm = "l2",
    ) -> None:
        """Keep the settings; sizes are the defaults of the released code.

        Args:
            steps: number of passes forward and back.
            step_size: length of a step of the perturbation, in units of the embedding space.
            initial_size: size of the initial random perturbation, see `FreeLB`.
            norm: norm of a step: l2, over all tokens of a text together, or linf.
        """
        super().__init__(
            steps=steps, step_size=step_size, initial_size=initial_size, epsilon=None, norm=norm
        )
