# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The processors that the engine's area is compared with: same cells, same script, logic without memories.

    rtl/flow/tools.sh --needs sta -- python rtl/flow/cores.py [NAME...]

mor1kx (OR1K) is the node processor of seed 000; picorv32 is a RISC-V processor made to be small. Both come from PyPI's packages.
"""

import sys

import designs
import synthesize
import timing
from liberty import Library


def main(names):
    library = Library()
    for design in designs.chosen(designs.cores(), names):
        synthesize.measure(design, library)
        timing.measure(design, library)
        synthesize.save(design.name, ["note"], design.note)


if __name__ == "__main__":
    main(sys.argv[1:])
