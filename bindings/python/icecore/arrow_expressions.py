"""Filters of expressions of pyarrow.compute: each is translated, by way of Substrait, to the text of a filter.

What text says and Substrait cannot, and the other way round, is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .errors import InvalidArgumentError

_OPERATORS = {
    "equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">=",
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "and": "and", "or": "or",
}  # fmt: skip
_PREFIXES = {"not": "not ", "negate": "-", "bitwise_not": "~"}
_FUNCTIONS = {"starts_with", "ends_with", "contains", "coalesce"}
_NULL_TESTS = {"is_null": "is null", "is_not_null": "is not null"}
_LITERALS: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    **{kind: str for kind in ("i8", "i16", "i32", "i64")},
    **{kind: lambda value: repr(float(value)) for kind in ("fp32", "fp64")},
    "string": lambda value: _bytes_text(value.encode()),
    "binary": lambda value: _bytes_text(value),
    "fixed_binary": lambda value: _bytes_text(value),
    "null": lambda value: "null",
}


def is_expression(candidate: object) -> bool:
    """Whether it is an expression of pyarrow.compute, without importing pyarrow for it."""
    kind = type(candidate)
    return kind.__name__ == "Expression" and kind.__module__.startswith("pyarrow.")


def text_of(expression: Any, layout: str | None) -> str:
    """The text of the filter that says the same. Its fields are ``key``, ``value`` and the layout's columns.

    Whole numbers count as int64 and uint64, all floats as float64, and bytes as strings or as binary, whichever the
    expression fits. InvalidArgumentError if Substrait or a filter cannot say it.
    """
    try:
        pa: Any = import_module("pyarrow")
        substrait: Any = import_module("pyarrow.substrait")
        plans: Any = import_module("substrait.extended_expression_pb2")
    except ImportError as missing:
        raise InvalidArgumentError(
            f"expressions of pyarrow need the packages pyarrow and substrait: pip install pyarrow substrait ({missing})"
        ) from missing
    reasons = []
    for bytes_type in (pa.string(), pa.binary()):
        schema = pa.schema([pa.field(name, kind or bytes_type) for name, kind in _fields(layout, pa)])
        try:
            message = bytes(substrait.serialize_expressions([expression], ["filter"], schema))
            break
        except (pa.ArrowException, TypeError) as reason:
            reasons.append(str(reason))
    else:
        raise InvalidArgumentError(
            f"the expression {expression} cannot be translated; write it as text ({'; '.join(dict.fromkeys(reasons))})"
        )
    plan = plans.ExtendedExpression()
    plan.ParseFromString(message)
    return _Translation(plan, str(expression)).text()


def _fields(layout: str | None, pa: Any) -> list[tuple[str, Any]]:
    """Name and type of each field; None for bytes."""
    fields: list[tuple[str, Any]] = [("key", None), ("value", None)]
    for column in (layout or "").split(","):
        named = re.fullmatch(r"\s*(\S+)\s+([uif]?)(\d*|bytes(?:\s*\(.*\))?)(?:\s+be)?\s*", column)
        if named:  # what is no column at all is told of when the filter is made
            whole = pa.uint64() if named[3] == "64" else pa.int64()
            fields.append((named[1], {"u": whole, "i": pa.int64(), "f": pa.float64()}.get(named[2])))
    return fields


def _bytes_text(value: bytes) -> str:
    if value.isascii() and value.decode().isprintable():
        return "'" + value.decode().replace("'", "''") + "'"
    return f"x'{value.hex()}'"


class _Translation:
    def __init__(self, plan: Any, shown: str) -> None:
        self._plan = plan
        self._shown = shown
        self._functions = {
            one.extension_function.function_anchor: one.extension_function.name.split(":")[0]
            for one in plan.extensions
        }

    def text(self) -> str:
        return self._text(self._plan.referred_expr[0].expression)

    def _refuse(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"filters have no {what}, which the expression {self._shown} uses")

    def _text(self, node: Any) -> str:
        kind = node.WhichOneof("rex_type")
        if kind == "literal":
            return self._literal(node.literal)
        if kind == "selection":
            return str(self._plan.base_schema.names[node.selection.direct_reference.struct_field.field])
        if kind == "scalar_function":
            return self._call(node.scalar_function)
        if kind == "singular_or_list":
            options = ", ".join(self._text(option) for option in node.singular_or_list.options)
            return f"({self._text(node.singular_or_list.value)} in ({options}))"
        if kind == "if_then":
            text = self._text(getattr(node.if_then, "else"))
            for clause in reversed(node.if_then.ifs):
                text = f"if({self._text(getattr(clause, 'if'))}, {self._text(clause.then)}, {text})"
            return text
        raise self._refuse(f"'{kind}'")

    def _literal(self, literal: Any) -> str:
        kind = literal.WhichOneof("literal_type")
        if kind not in _LITERALS:
            raise self._refuse(f"constants of type {kind}")
        text = _LITERALS[kind](getattr(literal, kind))
        if text.lstrip("-") in ("inf", "nan"):
            raise self._refuse(f"constant {text}")
        return text

    def _call(self, call: Any) -> str:
        name = self._functions[call.function_reference]
        values = [self._text(argument.value) for argument in call.arguments]
        if name in _OPERATORS:
            return f"({f' {_OPERATORS[name]} '.join(values)})"
        if name in _PREFIXES:
            return f"({_PREFIXES[name]}{values[0]})"
        if name in _NULL_TESTS:
            return f"({values[0]} {_NULL_TESTS[name]})"
        if name in _FUNCTIONS:
            if any(option.name == "case_sensitivity" and "CASE_SENSITIVE" not in option.preference
                   for option in call.options):  # fmt: skip
                raise self._refuse(f"{name} that ignores case")
            return f"{name}({', '.join(values)})"
        raise self._refuse(f"function '{name}'")
