"""The interface of the heavy steps of OpenVM 2's prover, whose tables stay in the backend's memory.

Arrays of a backend are opaque: the CPU has canonical uint32 NumPy arrays, a GPU uint32 arrays in Montgomery form
(x 2^32). On the host all elements are canonical, as in `kernels.maths.babybear`. What a step returns for the transcript
is on the host.

Implementations: `kernels.cpu.openvm.kernels`, `kernels.cuda.openvm.kernels`; reached as `Backend.openvm`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kernels.interface.arrays import Array
from kernels.interface.openvm_codes import CodeKernels
from kernels.interface.openvm_fractions import FractionKernels
from kernels.interface.openvm_opening import OpeningKernels
from kernels.interface.openvm_rules import OpenVmRules
from kernels.interface.openvm_stacking import StackingKernels
from kernels.maths.babybear import Elements


class OpenVmKernels(ABC):
    """The kernels of one device."""

    codes: CodeKernels
    opening: OpeningKernels
    rules: OpenVmRules
    """Constraints and interactions."""
    fractions: FractionKernels
    stacking: StackingKernels

    @abstractmethod
    def load(self, host: Elements) -> Array:
        """Return base elements, or extension elements in a last axis of 4, in the backend's memory."""

    @abstractmethod
    def adopt(self, array: Array) -> Array:
        """Turn canonical elements, which were copied to the backend's memory as they are, into the backend's form, in
        place. Returns the array."""

    @abstractmethod
    def download(self, array: Array) -> Elements:
        """Wait for an array and return it on the host."""

    @abstractmethod
    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        """Return the least w with which a sponge's state, w at `position`, permutes to `bits` low zeros of element 7.

        Raises SizeError for a state that is not 16 elements, ValueError if there is no such w.
        """
