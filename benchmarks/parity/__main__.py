"""Our attacks next to those of TextAttack 0.3.11 (docs/attacks/parity.md).

    python -m benchmarks.parity recorded --data_dir DIR
    python -m benchmarks.parity compat
    python -m benchmarks.parity recipes --data_dir DIR --python PEER/bin/python
    python -m benchmarks.parity table --data_dir DIR --corpus sst2 --vectors FILE --out FILE.json
        --ckpt_path runs/NAME/checkpoints/best.ckpt [--python PEER/bin/python]

`PEER/bin/python` is an interpreter that has TextAttack 0.3.11.
"""

import sys
from collections.abc import Sequence

from benchmarks.command import command
from benchmarks.parity import encoder_table, recipes, recorded


def main(argv: Sequence[str] | None = None) -> int:
    """Run a comparison; return 1 where less agrees than is required."""
    parser = command(__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMPARISON")
    modules = {"recorded": recorded, "recipes": recipes, "table": encoder_table}
    for name, module in modules.items():
        text = (module.__doc__ or "").partition("\n")[0]
        comparison = commands.add_parser(name, help=text, description=text)
        module.add_options(comparison)
        comparison.set_defaults(run=module.run)
    text = "Print the effect of `compat` on each recipe."
    compat = commands.add_parser("compat", help=text, description=text)
    compat.set_defaults(run=lambda _: print(recipes.compat_table()))
    options = parser.parse_args(argv)
    status: int | None = options.run(options)
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
