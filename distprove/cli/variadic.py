"""Options that take several values, as in `--input a.json b.json`: what a shell makes of `--input inputs/*.json`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from distprove.cli.plain_help import PlainCommand


class VariadicCommand(PlainCommand):
    """A command whose repeatable options also take all the values that follow them, up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        return super().parse_args(ctx, spread(args, repeatable))


def spread(args: Sequence[str], repeatable: Collection[str]) -> list[str]:
    """Repeat the option before each of its values: `--input a b` becomes `--input a --input b`.

    Everything after `--` is left as it is.
    """
    result: list[str] = []
    option: str | None = None
    for position, arg in enumerate(args):
        if arg == "--":
            return result + list(args[position:])
        if arg.startswith("-") and arg != "-":
            name, equals, _ = arg.partition("=")
            option = name if name in repeatable else None
            if option is not None and not equals:
                following = args[position + 1] if position + 1 < len(args) else None
                if following is not None and (following == "-" or not following.startswith("-")):
                    continue  # written in front of each value below
            result.append(arg)
        elif option is not None:
            result += [option, arg]
        else:
            result.append(arg)
    return result
