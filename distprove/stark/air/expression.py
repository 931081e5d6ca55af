"""Expressions over the cells of a table, stored in one graph in which equal expressions are the same node.

A node is `(op, a, b, c)` with the meaning of `RowProgram.code`, except that a CONST holds its value. Building an
expression folds sums, differences and products of constants, and drops operations with 0 and 1. Each node has a degree,
as a multiple of the table's height.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import NoReturn

from distprove.errors import AirError
from kernels.interface.row_program import Op
from kernels.maths.goldilocks import P

PREPROCESSED, MAIN, AUX, SELECTORS = range(4)
"""Input matrices of a constraint program. An interaction program has only the first two."""
FIRST, LAST, TRANSITION = range(3)
"""Columns of the matrix of selectors."""

MAX_POWER = 64

CONST, LOAD, SCALAR, BASE_SCALAR, ADD, SUB, MUL = map(
    int, (Op.CONST, Op.LOAD, Op.SCALAR, Op.BASE_SCALAR, Op.ADD, Op.SUB, Op.MUL)
)
"""The operations as plain integers: members of an enumeration take several times as long to look up and to compare, and
a table of Keccak-f has 50,000 nodes."""

Node = tuple[int, int, int, int]


class Graph:
    """The expressions of one AIR. Nodes are numbered in the order in which they are built, operands first."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.extension: list[bool] = []
        """Whether the value of each node is an extension element."""
        self._degrees: list[tuple[int, int]] = []
        self._ids: dict[Node, int] = {}
        self._constants: dict[int, int] = {}
        """Maps constant nodes to their values."""
        self._negations: dict[int, int] = {}
        """Maps nodes 0 - x to nodes x."""
        self.zero = self.constant(0)
        self.one = self.constant(1)

    def degree(self, node: int) -> int:
        """Degree of a node in units of the table's height, as `whole_degree` counts it."""
        return whole_degree(*self._degrees[node])

    # -- leaves -----------------------------------------------------------------------------------------------------

    def constant(self, value: int) -> int:
        node = self._node((CONST, value % P, 0, 0), False, (0, 0))
        self._constants[node] = value % P
        return node

    def load(self, matrix: int, column: int, *, next_row: bool = False) -> int:
        return self._node((LOAD, matrix, column, int(next_row)), False, leaf_degree(matrix, column))

    def scalar(self, index: int, *, extension: bool) -> int:
        return self._node((SCALAR if extension else BASE_SCALAR, index, 0, 0), extension, (0, 0))

    # -- operations -------------------------------------------------------------------------------------------------

    def add(self, a: int, b: int) -> int:
        if a == self.zero:
            return b
        if b == self.zero:
            return a
        constants, negations = self._constants, self._negations
        if a in constants and b in constants:
            return self.constant(constants[a] + constants[b])
        if b in negations:
            return self.sub(a, negations[b])
        if a in negations:
            return self.sub(b, negations[a])
        return self._operation(ADD, a, b) if a < b else self._operation(ADD, b, a)

    def sub(self, a: int, b: int) -> int:
        if b == self.zero:
            return a
        if a == b:
            return self.zero
        constants, negations = self._constants, self._negations
        if a in constants and b in constants:
            return self.constant(constants[a] - constants[b])
        if b in negations:
            return self.add(a, negations[b])
        difference = self._operation(SUB, a, b)
        if a == self.zero:
            negations[difference] = b
        return difference

    def mul(self, a: int, b: int) -> int:
        constants = self._constants
        if a in constants:
            a, b = b, a
        if b in constants:
            factor = constants[b]
            if a in constants:
                return self.constant(constants[a] * factor)
            if factor == 0:
                return self.zero
            if factor == 1:
                return a
            if factor == P - 1:
                return self.sub(self.zero, a)
        return self._operation(MUL, a, b) if a < b else self._operation(MUL, b, a)

    def sum(self, terms: Sequence[int]) -> int:
        total = self.zero
        for term in terms:
            total = self.add(total, term)
        return total

    def product(self, factors: Sequence[int]) -> int:
        total = self.one
        for factor in factors:
            total = self.mul(total, factor)
        return total

    def power(self, a: int, exponent: int) -> int:
        result = self.one
        for bit in bin(exponent)[2:]:
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result

    # -- queries ----------------------------------------------------------------------------------------------------

    def value(self, node: int) -> int | None:
        """The canonical value of a constant node; None for any other node."""
        return self._constants.get(node)

    def leaves(self, roots: Sequence[int], op: int = LOAD) -> list[Node]:
        """The leaves of the kind `op` that the expressions `roots` depend on, sorted."""
        seen = set(roots)
        stack = list(seen)
        found = []
        while stack:
            node = self.nodes[stack.pop()]
            if node[0] == op:
                found.append(node)
            elif node[0] >= ADD:
                fresh = {node[1], node[2]} - seen
                seen |= fresh
                stack += fresh
        return sorted(found)

    # -- building ---------------------------------------------------------------------------------------------------

    def _operation(self, op: int, a: int, b: int) -> int:
        found = self._ids.get((op, a, b, 0))
        if found is not None:
            return found
        (da, ta), (db, tb) = self._degrees[a], self._degrees[b]
        degree = (da + db, ta + tb) if op == MUL else (max(da, db), max(ta, tb))
        return self._node((op, a, b, 0), self.extension[a] or self.extension[b], degree)

    def _node(self, node: Node, extension: bool, degree: tuple[int, int]) -> int:
        found = self._ids.get(node)
        if found is None:
            found = self._ids[node] = len(self.nodes)
            self.nodes.append(node)
            self.extension.append(extension)
            self._degrees.append(degree)
        return found


def leaf_degree(matrix: int, column: int) -> tuple[int, int]:
    """The degree of a loaded cell as (columns, transition selectors): (1, 0), or (0, 1) for the transition selector."""
    return (0, 1) if matrix == SELECTORS and column == TRANSITION else (1, 0)


def whole_degree(columns: int, transitions: int) -> int:
    """The degree, in units of the height n, of a product of so many columns and transition selectors.

    A column's polynomial has degree n - 1 and the transition selector x - w^-1 degree 1. Divided by x^n - 1, a product
    of d columns and k selectors has degree (d - 1) n - d + k, which is below max(1, d - 1) n unless k > max(1, d - 1).
    In that case the product counts as one column more.
    """
    return columns + (transitions > max(1, columns - 1))


class Expression:
    """A value of each row: a cell, a public value, a constant, or sums and products of these.

    Arithmetic with ints and other expressions gives expressions; `**` takes exponents 0 to 64. An expression cannot be
    compared or branched on, because it has a value only in a row of a trace.
    """

    __array_ufunc__ = None  # makes a NumPy integer on the left defer to our operators
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("graph", "node")

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph = graph
        self.node = node

    @property
    def degree(self) -> int:
        """Degree in units of the table's height: 1 for a column, 0 for a constant."""
        return self.graph.degree(self.node)

    def __add__(self, other: Expression | int) -> Expression:
        return Expression(self.graph, self.graph.add(self.node, self._operand(other)))

    def __sub__(self, other: Expression | int) -> Expression:
        return Expression(self.graph, self.graph.sub(self.node, self._operand(other)))

    def __mul__(self, other: Expression | int) -> Expression:
        return Expression(self.graph, self.graph.mul(self.node, self._operand(other)))

    def __radd__(self, other: int) -> Expression:
        return self + other

    def __rsub__(self, other: int) -> Expression:
        return Expression(self.graph, self.graph.sub(self._operand(other), self.node))

    def __rmul__(self, other: int) -> Expression:
        return self * other

    def __neg__(self) -> Expression:
        return 0 - self

    def __pow__(self, exponent: int) -> Expression:
        if isinstance(exponent, bool) or not isinstance(exponent, int) or not 0 <= exponent <= MAX_POWER:
            raise AirError(f"an exponent must be an integer from 0 to {MAX_POWER}, not {exponent!r}")
        return Expression(self.graph, self.graph.power(self.node, exponent))

    def _operand(self, other: object) -> int:
        return operand(self.graph, other)

    def __bool__(self) -> NoReturn:
        raise AirError(
            "an expression has no truth value while an AIR is being defined; "
            "write the condition as a polynomial that is zero, or multiply by a 0/1 column"
        )

    def _compare(self, _other: object) -> NoReturn:
        raise AirError(
            "expressions cannot be compared while an AIR is being defined; "
            "constrain a difference (t.always(a - b)), or look the value up on a bus for an order"
        )

    __eq__ = _compare  # type: ignore[assignment]
    __ne__ = _compare  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __truediv__(self, _other: object) -> NoReturn:
        raise AirError("expressions cannot be divided; add a column for the quotient q and constrain q * b - a")

    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__

    def __repr__(self) -> str:
        return f"<expression of degree {self.degree}>"


def operand(graph: Graph, value: object) -> int:
    """The node of an expression of `graph`, or of an int. Raises AirError for anything else."""
    if isinstance(value, Expression):
        if value.graph is not graph:
            raise AirError("an expression of one table cannot be used in another")
        return value.node
    if isinstance(value, int) or hasattr(value, "__index__"):
        return graph.constant(int(value))
    raise AirError(
        f"expected an expression or an int, not {type(value).__name__}"
        + (" (a name with several columns is a tuple: index it)" if isinstance(value, tuple) else "")
    )


def total(terms: Iterable[Expression]) -> Expression:
    """The sum of one or more expressions, added in their order."""
    return reduce(add, terms)
