"""Filters: conditions on keys and values, as text or as Python functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Union, overload

import numpy as np

from . import _native, arrow_expressions, checks
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import TypeAlias

    from ._types import BytesLike

    ArrowExpression: TypeAlias = Any  # pyarrow.compute.Expression, where pyarrow is installed

BlockFunction = Callable[[list[bytes], Any], Any]
FilterLike: TypeAlias = Union[str, "Filter", BlockFunction, "ArrowExpression"]


class Filter(_native.Filter):
    """A condition on keys and values: an expression, or a function of yours (``filter_function``).

    An expression is text, or one of ``pyarrow.compute`` over the fields ``key``, ``value`` and the layout's columns,
    which needs the packages pyarrow and substrait.

    ``layout`` names the columns of a value: ``"price f64, qty u32, name bytes"``. What a value lacks is null, and null
    does not match. ``a & b`` and ``a | b`` join filters. A filter never changes; any number of threads may use it.

    >>> dear = icecore.Filter("price > 100", layout="price f64")
    >>> dear.matches("key", np.float64(180.5).tobytes())
    True

    Raises BadInputError, which says the position, what was expected, and the nearest name; TypeError for what is no
    expression; InvalidArgumentError for what a pyarrow expression cannot say here.
    """

    __slots__ = ()

    def __init__(self, text: str | ArrowExpression, layout: str | None = None) -> None:
        if arrow_expressions.is_expression(text):
            text = arrow_expressions.text_of(text, layout)
        super().__init__(checks.text(text, "an expression"), checks.text_or_none(layout, "layout"))

    def with_layout(self, layout: str) -> Filter:
        """The same filter, with these columns for the expressions of totals and selections.

        >>> def all_keys(keys, values):
        ...     return [True] * len(keys)
        >>> found = icecore.filter_function(all_keys).with_layout("digit u8")
        >>> store.latest().where(found).sum("digit")
        101

        Raises BadInputError for a layout that cannot be read, and TypeError.
        """
        return _made(self, checks.text(layout, "layout"))

    def matches(self, key: BytesLike, value: BytesLike) -> bool:
        """Whether one key and value match. ``where()`` is many times as fast for many.

        >>> icecore.Filter("starts_with(key, 'eu/')").matches("eu/1", "")
        True

        Raises TypeError for what is no bytes, str or bytes-like object, and whatever a function of the filter raises.
        """
        return self._matches(key, value)

    def explain(self) -> str:
        """The expression in normal form, the ranges of keys that are sought, and the order of evaluation.

        >>> print(icecore.Filter("key='a'").explain().splitlines()[0])
        key = 'a'

        Raises nothing.
        """
        return self._explain()

    def fingerprint(self) -> bytes:
        """16 bytes; equal filters have equal ones.

        >>> icecore.Filter("key='a'").fingerprint() == icecore.Filter("(key = 'a')").fingerprint()
        True

        Raises nothing.
        """
        return self._fingerprint()

    @property
    def function(self) -> tuple[str, int] | None:
        """Name and revision of the function that it is of, by which kept queries refer to it; None if it is of none.

        >>> icecore.Filter("true").function is None
        True

        Raises nothing.
        """
        return self._function

    def __and__(self, other: Filter) -> Filter:
        return _made([self, other], True) if isinstance(other, Filter) else NotImplemented

    def __or__(self, other: Filter) -> Filter:
        return _made([self, other], False) if isinstance(other, Filter) else NotImplemented

    def __repr__(self) -> str:
        return f"<icecore.Filter {self.explain().splitlines()[0]}>"


def _made(*arguments: Any) -> Filter:
    made = Filter.__new__(Filter)
    _native.Filter.__init__(made, *arguments)
    return made


@overload
def filter_function(
    function: BlockFunction, *, dtype: npt.DTypeLike | None = None, name: str | None = None, revision: int | None = None
) -> Filter: ...
@overload
def filter_function(
    function: None = None, *, dtype: npt.DTypeLike | None = None, name: str | None = None, revision: int | None = None
) -> Callable[[BlockFunction], Filter]: ...
def filter_function(
    function: BlockFunction | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    name: str | None = None,
    revision: int | None = None,
) -> Any:
    """Makes a filter of a function; also a decorator, with or without arguments.

    The function is called for a block of some tens of items, with the list of their keys and the list of their values
    as bytes, and returns a bool for each: an array or a list. With ``dtype`` it gets the values as one array of that
    dtype, and only the items whose values have its size; others do not match. Several threads may call it, one at a
    time, as they hold the GIL.

    Kept queries refer to it by ``name`` (default: its module and qualified name) and ``revision``. By default, the
    revision is a fingerprint of its code, its defaults, and the constants and functions that it closes over, but not of
    its globals; other minor versions of Python give others. Callable objects that are no functions need a revision.

    >>> @icecore.filter_function
    ... def long_keys(keys, values):
    ...     return [len(key) > 3 for key in keys]
    >>> store.latest().where(long_keys | icecore.Filter("key = 'a'")).count()
    1

    Raises TypeError for what cannot be called, or has no code to make a revision of, and InvalidArgumentError for a dtype
    without bytes of its own.
    """
    if function is None:
        return lambda decorated: filter_function(decorated, dtype=dtype, name=name, revision=revision)
    if not callable(function):
        raise TypeError(f"a filter function must be callable, not {type(function).__name__}")
    if name is None:
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    item = None if dtype is None else np.dtype(dtype)
    if item is not None and (item.hasobject or item.itemsize == 0):
        raise InvalidArgumentError(f"values of dtype {item} have no bytes of their own")
    if revision is None:
        revision = fingerprint(function, repr(item))
    named = checks.text(name, "the name of a filter function")
    number = checks.whole_number(revision, "revision")
    return _made(named, number, _block_call(function, item), 0 if item is None else item.itemsize)


def as_filter(where: FilterLike | None, layout: str | None) -> Filter:
    """Converts whatever methods take as a filter. None matches everything."""
    if where is None or isinstance(where, str) or arrow_expressions.is_expression(where):
        return Filter("true" if where is None else where, layout)
    made = where if isinstance(where, Filter) else filter_function(where)
    return made if layout is None else made.with_layout(layout)


def functions_of(given: FilterLike | Sequence[FilterLike]) -> list[_native.Filter]:
    """The filters of functions among which a kept query finds its own."""
    several = [given] if isinstance(given, (str, Filter)) or callable(given) else given
    made = [as_filter(one, None) for one in several]
    for one in made:
        if one.function is None:
            raise TypeError(f"functions must be functions or filters of them, not {one!r}")
    return list(made)


def _block_call(function: BlockFunction, item: np.dtype[Any] | None) -> Callable[[list[bytes], Any], Any]:
    def call(keys: list[bytes], values: Any) -> npt.NDArray[np.bool_]:
        answer = function(keys, values if item is None else np.frombuffer(values, item))
        flags = np.asarray(answer, dtype=np.bool_)
        if flags.shape != (len(keys),):
            raise InvalidArgumentError(
                f"the function of a filter must return a bool for each of the {len(keys)} items, "
                f"not {type(answer).__name__} of shape {flags.shape}"
            )
        return np.ascontiguousarray(flags)

    return call


def fingerprint(function: Callable[..., Any], *besides: str) -> int:
    """64 bits that change with the function's code."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no Python function, so its code has no fingerprint: give revision=")
    digest = hashlib.blake2b("\0".join(besides).encode(), digest_size=8)
    _add_function(digest, function, set())
    return int.from_bytes(digest.digest(), "little")


def _add_function(digest: Any, function: FunctionType, seen: set[int]) -> None:
    if id(function) in seen:  # it closes over itself
        return
    seen.add(id(function))
    _add_code(digest, function.__code__)
    for value in (function.__defaults__, function.__kwdefaults__):
        _add_value(digest, value, seen)
    for cell in function.__closure__ or ():
        try:
            _add_value(digest, cell.cell_contents, seen)
        except ValueError:  # it is not filled yet
            _add_value(digest, None, seen)


def _add_code(digest: Any, code: CodeType) -> None:
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_names, code.co_varnames, code.co_freevars)
    digest.update(repr(shape).encode())
    digest.update(code.co_code)
    for constant in code.co_consts:
        _add_value(digest, constant, set())


def _add_value(digest: Any, value: Any, seen: set[int]) -> None:
    digest.update(type(value).__qualname__.encode())
    if isinstance(value, CodeType):
        _add_code(digest, value)
    elif isinstance(value, FunctionType):
        _add_function(digest, value, seen)
    elif isinstance(value, tuple):
        for one in value:
            _add_value(digest, one, seen)
    elif isinstance(value, (frozenset, dict)):
        digest.update(repr(sorted(map(repr, value.items() if isinstance(value, dict) else value))).encode())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        digest.update(repr(value).encode())
