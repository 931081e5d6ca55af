"""Compiles an AIR: its constraints and those of LogUp, as two row programs.

LogUp (Haböck, Multivariate lookups based on logarithmic derivatives, eprint 2022/1530): the tuple t_1, .., t_w on bus
number `id` has the fingerprint f = z + id + beta t_1 + .. + beta^w t_w. A bus balances when the sum of times / f over
all sent tuples equals the sum over all received tuples. The interactions of a group share a column h = sum of
times / f, in which received tuples count negative. The column s of a scope sums its groups' h down the rows, less T/n
in each row, so that it is cyclic and T is the table's sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distprove.errors import AirError
from distprove.stark.air.compiled import (
    EXTENSION_DEGREE,
    MAX_BUSES,
    MAX_DEGREE,
    MAX_PUBLIC,
    SCOPES,
    SELECTOR_COLUMNS,
    BusUse,
    CompiledAir,
    Group,
    ScalarLayout,
    chunks_for,
    longest,
    scope_widths,
)
from distprove.stark.air.definition import MAX_NAME, Bus, Definition, Interaction, Scope
from distprove.stark.air.expression import AUX, Graph
from distprove.stark.air.lowering import lower
from kernels.host.units import count_of
from kernels.interface.row_program import RowProgram

LEAST_GROUP_DEGREE = 3
"""Minimum degree up to which interactions are grouped. Two interactions of degree 1 share a column at two quotient
chunks."""


def number_buses(definitions: Sequence[Definition]) -> dict[str, int]:
    """Number the buses from 1 in the order of first use, by name. Raises AirError for a bus declared in two ways."""
    buses: dict[str, Bus] = {}
    for definition in definitions:
        for interaction in definition.interactions:
            bus = interaction.bus
            if buses.setdefault(bus.name, bus) != bus:
                raise AirError(f"{definition.name}: bus {bus.name} is {buses[bus.name]} elsewhere, not {bus}")
    return {name: number for number, name in enumerate(buses, 1)}


def compile_definition(definition: Definition, buses: Mapping[str, int]) -> CompiledAir:
    """Compile an AIR that `trace_air` has run for a program. Adds the LogUp expressions to its graph.

    `buses` maps bus names to numbers, the same in all tables of the program. Raises AirError when the AIR's definition
    is inconsistent.
    """
    if definition.public_count > MAX_PUBLIC:
        raise AirError(
            f"{definition.name}: {count_of(definition.public_count, 'public value')}, at most {MAX_PUBLIC} are possible"
        )
    if len(set(buses.values())) < len(buses):
        raise AirError(f"{definition.name}: two buses of its program have one number, so that their tuples would mix")
    graph = definition.graph
    ordered = [i for scope in SCOPES for i in definition.interactions_of(scope)]
    uses = tuple(bus_use(definition.name, i, buses) for i in ordered)
    layout = ScalarLayout(definition.public_count, longest(uses, "local"), longest(uses, "global"))

    own = [constraint.node for constraint in definition.constraints]
    degree = max((graph.degree(node) for node in own), default=1)
    # D quotient chunks hold constraints of degree D + 1, so LogUp may use that degree at no cost.
    limit = 1 + chunks_for(max(LEAST_GROUP_DEGREE, degree))
    parts = [
        _Group(graph, scope, list(group), [fingerprint(graph, layout, i, buses) for i in group])
        for scope in SCOPES
        for group in _grouped(graph, definition.interactions_of(scope), limit)
    ]
    groups = tuple(Group(part.scope, len(part.members)) for part in parts)
    logup = _logup_constraints(graph, layout, parts)
    nodes = own + [node for _, node in logup]
    names = tuple(c.name for c in definition.constraints) + tuple(name for name, _ in logup)
    for name, node in zip(names, nodes, strict=True):
        found = graph.degree(node)
        if found > MAX_DEGREE:
            raise AirError(f"{definition.name}: constraint {name} has degree {found}, at most {MAX_DEGREE} is possible")

    preprocessed, main = sum(definition.preprocessed.values()), sum(definition.main.values())
    return CompiledAir(
        name=definition.name,
        public_count=definition.public_count,
        constraints=lower(
            graph,
            nodes,
            widths=(preprocessed, main, scope_widths(groups), SELECTOR_COLUMNS),
            scalars=layout.weights + len(nodes),
            fold=layout.weights,
        ),
        constraint_names=names,
        interactions=_interaction_program(graph, layout, parts, (preprocessed, main)) if parts else None,
        groups=groups,
        uses=uses,
    )


class _Group:
    """Interactions that share a column h, the sum of times_i / f_i, with the nodes of its numerator and denominator."""

    def __init__(self, graph: Graph, scope: Scope, members: list[Interaction], fingerprints: list[int]) -> None:
        self.scope = scope
        self.members = members
        self.denominator = graph.product(fingerprints)
        self.numerator = graph.zero
        for i, member in enumerate(members):
            others = graph.product(fingerprints[:i] + fingerprints[i + 1 :])
            term = graph.mul(member.times, others)
            self.numerator = (graph.add if member.sends else graph.sub)(self.numerator, term)


def bus_use(name: str, interaction: Interaction, buses: Mapping[str, int]) -> BusUse:
    """The compiled form of one interaction of the table `name`. Raises AirError for a bus without a number."""
    bus = interaction.bus
    number = buses.get(bus.name)
    if number is None:
        raise AirError(f"{name}: bus {bus.name} is none of its program's: add it to Program.buses")
    if not 1 <= number <= MAX_BUSES:
        raise AirError(f"{name}: bus {bus.name} has no number from 1 to {MAX_BUSES} in its program")
    return BusUse(bus, number, interaction.sends, interaction.at_most)


def fingerprint(graph: Graph, layout: ScalarLayout, interaction: Interaction, buses: Mapping[str, int]) -> int:
    """The node of z + id + beta t_1 + .. + beta^w t_w, with the scalars of `layout`."""
    start = layout.start(interaction.bus.scope)
    number = graph.constant(buses[interaction.bus.name])
    terms = [graph.add(graph.scalar(start, extension=True), number)]
    for power, value in enumerate(interaction.values, 1):
        terms.append(graph.mul(value, graph.scalar(start + power, extension=True)))
    return graph.sum(terms)


def _grouped(graph: Graph, interactions: Sequence[Interaction], limit: int) -> list[list[Interaction]]:
    """Group consecutive interactions, as many per group as the degree allows. One that exceeds the limit is alone."""
    groups: list[list[Interaction]] = []
    for interaction in interactions:
        if groups and len(groups[-1]) < limit and _group_degree(graph, [*groups[-1], interaction]) <= limit:
            groups[-1].append(interaction)
        else:
            groups.append([interaction])
    return groups


def _group_degree(graph: Graph, group: Sequence[Interaction]) -> int:
    """Degree of a group's constraint h prod f_i = sum_i times_i prod_{k != i} f_k."""
    tuples = [max(graph.degree(value) for value in i.values) for i in group]
    rest = (graph.degree(i.times) - own for i, own in zip(group, tuples, strict=True))
    return sum(tuples) + max(1, *rest)


def _logup_constraints(graph: Graph, layout: ScalarLayout, groups: Sequence[_Group]) -> list[tuple[str, int]]:
    """Name and node of each group's constraint on its column h, then of each scope's constraint on its column s."""
    found = []
    columns: dict[Scope, list[int]] = {scope: [] for scope in SCOPES}
    for index, group in enumerate(groups):
        first = EXTENSION_DEGREE * index
        columns[group.scope].append(first)
        h = _extension_element(graph, layout, [graph.load(AUX, first + k) for k in range(EXTENSION_DEGREE)])
        node = graph.sub(graph.mul(h, group.denominator), group.numerator)
        buses = ", ".join(dict.fromkeys(member.bus.name for member in group.members))
        found.append((f"logup[{index}]: {buses}"[:MAX_NAME], node))
    s = EXTENSION_DEGREE * len(groups)
    for scope in SCOPES:
        if not columns[scope]:
            continue
        step = []
        for k in range(EXTENSION_DEGREE):
            terms = graph.sum([graph.load(AUX, first + k) for first in columns[scope]])
            change = graph.sub(graph.load(AUX, s + k, next_row=True), graph.load(AUX, s + k))
            step.append(graph.sub(change, terms))
        share = graph.scalar(layout.terminal(scope), extension=True)
        found.append((f"logup sum: {scope}", graph.add(_extension_element(graph, layout, step), share)))
        s += EXTENSION_DEGREE
    return found


def _extension_element(graph: Graph, layout: ScalarLayout, coordinates: Sequence[int]) -> int:
    """The extension element a + b x + c x^2 from three base expressions."""
    a, b, c = coordinates
    x, xx = (graph.scalar(layout.basis + k, extension=True) for k in range(2))
    return graph.sum([a, graph.mul(b, x), graph.mul(c, xx)])


def _interaction_program(
    graph: Graph, layout: ScalarLayout, groups: Sequence[_Group], widths: tuple[int, int]
) -> RowProgram:
    # The scalars of this program end with a 0, at the index where the constraint program has a terminal.
    zero = graph.scalar(layout.challenges_end, extension=True)
    numerators = [g.numerator if graph.extension[g.numerator] else graph.add(g.numerator, zero) for g in groups]
    return lower(
        graph,
        numerators + [g.denominator for g in groups],
        widths=widths,
        scalars=layout.challenges_end + 1,
    )
