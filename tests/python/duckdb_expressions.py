"""Random conditions, as text of a filter and as SQL of DuckDB, which must give the same for every row.

What the two languages do not share is written out in SQL: whole numbers are 128 bits wide there and become null out of
the range that icecore has; comparisons of doubles with NaN, and of doubles with whole numbers, are spelled out; bytes are
text of one character a byte, in the same order. Each node of an expression is a column of its own, computed from those of
its parts, so that an operand which stands in several places of the SQL is not computed several times.
"""

import math
import random
import struct
from dataclasses import dataclass, field

LAYOUT = "a i64, b u64, c i32, d f64, e f32, s bytes(2), t bytes"
COLUMNS = (("key", "text"), ("version", "whole"), ("a", "whole"), ("b", "whole"), ("c", "whole"), ("d", "real"), ("e", "real"),
           ("s", "text"), ("t", "text"), ("value", "text"))  # as the table rows has them, after its number
TYPES = {"truth": "boolean", "whole": "hugeint", "real": "double", "text": "varchar"}
LEAST, GREATEST = -(2**63), 2**64 - 1
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
WHOLE_OPERATORS = ("+", "-", "*", "*", "/", "%", "&", "|", "^", "<<", ">>")
REAL_OPERATORS = ("+", "-", "*", "/", "%")
MAY_LEAVE_THE_RANGE = {"+", "-", "*", "/", "^", "<<", "negative", "~"}
EDGES = (LEAST, LEAST + 1, -(2**53) - 1, 2**53 + 1, 2**53, 2**63 - 1, 2**63, 2**63 + 1, GREATEST, GREATEST - 1, 2**32, 2**31 - 1,
         -(2**31), 64, 63)
REAL_EDGES = (-0.0, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e300, -1e300, 5e-324, 0.1, 2.0**32 + 0.5, 2.0**64 - 2048)
ODD_REALS = (math.inf, -math.inf, math.nan)
PATTERNS = ("a", "^a", "b$", "^a*b?$", "[ab]c", "a|bc", ".b", "(ab)+", "^$", "a.*c")


@dataclass
class Expression:
    op: str  # an operator, a function, "column" or "literal"
    type: str  # of TYPES
    of: list = field(default_factory=list)
    literal: object = None

    @property
    def is_leaf(self):
        return not self.of


def as_text(data):
    """Bytes as DuckDB gets them: a letter from U+0100 to U+01FF for each byte, whose UTF-8 is in the order of the bytes."""
    return data.decode("latin-1").translate({byte: 0x100 + byte for byte in range(256)})


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def whole(self):
        return self.random.randint(-10, 10) if self.random.random() < 0.5 else self.random.choice(EDGES)

    def real(self):
        return self.random.randint(-40, 40) / 4 if self.random.random() < 0.5 else self.random.choice(REAL_EDGES)

    def data(self):
        return bytes(self.random.choice(b"abc\xff\0%_'") for _ in range(self.random.randrange(4)))

    # ---- Rows ----

    def row(self):
        """A key and a value, which may be too short for its columns."""
        def number():
            return self.random.choice(ODD_REALS) if self.random.random() < 0.15 else self.real()

        c = max(-(2**31), min(self.whole(), 2**31 - 1))
        e = number()
        value = struct.pack("<qQidf", min(self.whole(), 2**63 - 1), max(self.whole(), 0), c, number(),
                            math.fmod(e, 1e30) if math.isfinite(e) else e)
        value += (self.data() + b"bb")[:2] + self.data()
        if self.random.random() < 0.2:
            value = value[: self.random.randrange(len(value))]
        return self.data(), value

    # ---- Expressions ----

    def condition(self, depth):
        return self.make("truth", depth)

    def make(self, kind, depth):
        chance = self.random.random()
        if depth <= 0 or chance < 1 / 6:
            return self.leaf(kind)
        if chance < 1 / 4:
            return self.chosen(kind, depth - 1)
        return getattr(self, kind + "_of")(depth - 1)

    def literal(self, kind):
        values = {"truth": lambda: self.random.random() < 0.5, "whole": self.whole, "real": self.real, "text": self.data}
        return Expression("literal", kind, literal=values[kind]())

    def leaf(self, kind):
        if self.random.random() < 1 / 12:
            return Expression("literal", kind)  # null
        names = [name for name, type_ in COLUMNS if type_ == kind]
        if not names or self.random.random() < 0.5:
            return self.literal(kind)
        return Expression("column", kind, literal=self.random.choice(names))

    def any_type(self):
        return self.random.choice(("truth", "whole", "whole", "real", "text"))

    def number(self, depth):
        return self.make(self.random.choice(("whole", "real")), depth)

    def chosen(self, kind, depth):
        if self.random.random() < 0.5:
            return Expression("if", kind, [self.make("truth", depth), self.make(kind, depth), self.make(kind, depth)])
        return Expression("coalesce", kind, [self.make(kind, depth) for _ in range(self.random.randint(2, 3))])

    def truth_of(self, depth):
        choice = self.random.randrange(11)
        kind = self.any_type()
        if choice < 2:
            parts = [self.make("truth", depth) for _ in range(self.random.randint(2, 3))]
            return Expression(self.random.choice(("and", "or")), "truth", parts)
        if choice == 2:
            return Expression("not", "truth", [self.make("truth", depth)])
        if choice == 3:
            return Expression("is_null", "truth", [self.make(kind, depth)])
        if choice == 4:
            return Expression("between", "truth", [self.make(kind, depth) for _ in range(3)])
        if choice == 5:
            inner = self.random.choice((0, depth))
            return Expression("in", "truth", [self.make(kind, depth), *(self.make(kind, inner) for _ in range(self.random.randint(1, 4)))])
        if choice == 6:
            pattern = "".join(self.random.choice("ab%_'") for _ in range(self.random.randrange(5)))
            return Expression("like", "truth", [self.make("text", depth)], pattern)
        if choice == 7:
            function = self.random.choice(("starts_with", "ends_with", "contains"))
            return Expression(function, "truth", [self.make("text", depth), self.make("text", depth)])
        if choice == 8:
            return Expression("matches", "truth", [self.make("text", depth)], self.random.choice(PATTERNS))
        if choice == 9:
            return Expression(self.random.choice(COMPARISONS), "truth", [self.number(depth), self.number(depth)])
        return Expression(self.random.choice(COMPARISONS), "truth", [self.make(kind, depth), self.make(kind, depth)])

    def whole_of(self, depth):
        choice = self.random.randrange(8)
        if choice == 0:
            return Expression("length", "whole", [self.make("text", depth)])
        if choice == 1:
            kind = self.random.choice(("truth", "whole", "real", "real"))
            return Expression(self.random.choice(("i64", "u64")), "whole", [self.make(kind, depth)])
        if choice == 2:
            return Expression(self.random.choice(("negative", "~")), "whole", [self.make("whole", depth)])
        return Expression(self.random.choice(WHOLE_OPERATORS), "whole", [self.make("whole", depth), self.make("whole", depth)])

    def real_of(self, depth):
        choice = self.random.randrange(6)
        if choice == 0:
            return Expression("f64", "real", [self.make(self.random.choice(("truth", "whole")), depth)])
        if choice == 1:
            return Expression("negative", "real", [self.make("real", depth)])
        parts = [self.make("real", depth), self.number(depth)]
        self.random.shuffle(parts)
        return Expression(self.random.choice(REAL_OPERATORS), "real", parts)

    def text_of(self, depth):
        parts = [self.make("text", depth), self.make("whole", depth)]
        return Expression("substr", "text", parts + [self.make("whole", depth)] * self.random.randrange(2))


# ---- As text of a filter ----

def filter_literal(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        printable = all(32 <= byte < 127 for byte in value)
        return quoted(value.decode("ascii")) if printable else f"x'{value.hex()}'"
    return f"({value!r})"


def filter_text(one):
    if one.op == "literal":
        return filter_literal(one.literal)
    if one.op == "column":
        return one.literal
    parts = [filter_text(part) for part in one.of]
    listed = ", ".join(parts)
    if one.op in ("not", "~"):
        return f"({one.op} {listed})"
    if one.op == "negative":
        return f"(- {listed})"
    if one.op == "between":
        return f"({parts[0]} between {parts[1]} and {parts[2]})"
    if one.op == "in":
        return f"({parts[0]} in ({', '.join(parts[1:])}))"
    if one.op in ("like", "matches"):
        return f"({listed} {'like' if one.op == 'like' else '~'} {quoted(one.literal)})"
    if one.op[0].isalpha() and one.op not in ("and", "or"):
        return f"{one.op}({listed})"
    return "(" + f" {one.op} ".join(parts) + ")"


# ---- As SQL ----

def real_sql(part):
    """A whole number as a double: rounded once, which DuckDB does for 64 bits."""
    return f"case when {part} < 0 then {part}::bigint::double else {part}::ubigint::double end"


def compared_sql(op, x, y):
    """Of operands, which have SQL, type, and SQL as a double."""
    sql_op = "<>" if op == "!=" else op
    if "real" not in (x.type, y.type):
        return f"{x.sql} {sql_op} {y.sql}"
    r, s = x.real, y.real
    null = f"when {r} is null or {s} is null then null"
    odd = f"when isnan({r}) or isnan({s}) then {'true' if op == '!=' else 'false'}"
    if x.type == y.type:
        return f"case {null} {odd} else {r} {sql_op} {s} end"
    # Rounding keeps the order: so where the doubles differ they tell, and where they are equal, both are whole.
    whole = [part.sql if part.type == "whole" else f"{part.sql}::hugeint" for part in (x, y)]
    return f"case {null} {odd} when {r} <> {s} then {r} {sql_op} {s} else {whole[0]} {sql_op} {whole[1]} end"


def whole_sql(op, x, y):
    """May be out of range."""
    power = f"(1::hugeint << least(greatest({y}, 0), 64)::integer)"
    return {
        "+": f"{x} + {y}", "-": f"{x} - {y}", "&": f"{x} & {y}", "|": f"{x} | {y}", "^": f"xor({x}, {y})",
        "*": f"case when {x} = 0 or {y} = 0 then {x} * {y} when abs({x}) <= {2**127 - 1} // abs({y}) then {x} * {y} end",
        "/": f"case when {y} <> 0 then {x} // {y} end", "%": f"case when {y} <> 0 then {x} % {y} end",
        "<<": f"case when {y} is null or {y} < 0 then null when {x} = 0 then 0 when {y} > 64 then null "
              f"when {x} between -({2**63} // {power}) and {GREATEST} // {power} then {x} * {power} end",
        ">>": f"case when {y} is null or {y} < 0 then null when {x} >= 0 then {x} // {power} else -((-{x} + {power} - 1) // {power}) end",
    }[op]


def substr_sql(x, start, count):
    begin = f"(case when {start} < 0 then length({x}) + 1 + {start} else {start} end)"
    first = f"least(greatest({begin}, 1), length({x}) + 1)"
    last = f"length({x})" if count is None else f"least({begin} + {count} - 1, length({x}))"
    negative = "" if count is None else f"when {count} < 0 then null"
    null = "" if count is None else f"or {count} is null"
    # greatest() and least() pass nulls over.
    return (f"(case when {x} is null or {start} is null {null} then null {negative} "
            f"else substring({x}, {first}::bigint, greatest({last} - {first} + 1, 0)::bigint) end)")


def converted_sql(op, part):
    x = part.sql
    if op == "f64":
        return f"{x}::integer::double" if part.type == "truth" else part.real
    if part.type == "truth":
        return f"{x}::integer::hugeint"
    least, greatest = (0, GREATEST) if op == "u64" else (LEAST, 2**63 - 1)
    if part.type == "whole":
        return f"case when {x} between {least} and {greatest} then {x} end"
    return (f"case when not isnan({x}) and abs({x}) < 1e30 and trunc({x})::hugeint between {least} and {greatest} "
            f"then trunc({x})::hugeint end")


def node_sql(one, parts):
    """Of an expression whose operands are these."""
    names = [part.sql for part in parts]
    x, listed = names[0], ", ".join(names)
    if one.op in COMPARISONS:
        return compared_sql(one.op, *parts)
    if one.op in ("and", "or"):
        return f" {one.op} ".join(names)
    if one.op == "if":
        return f"case when {x} then {names[1]} else {names[2]} end"
    if one.op == "between":
        return f"({compared_sql('>=', parts[0], parts[1])}) and ({compared_sql('<=', parts[0], parts[2])})"
    if one.op == "in":
        if parts[0].type != "real":
            return f"{x} in ({', '.join(names[1:])})"
        return " or ".join(f"({compared_sql('=', parts[0], part)})" for part in parts[1:])
    if one.op == "like":
        letters = "".join(c if c in "%_" else as_text(c.encode()) for c in one.literal)
        return f"{x} like {quoted(letters)}"
    if one.op == "matches":
        letters = "".join(as_text(c.encode()) if c.isalpha() else c for c in one.literal)
        return f"regexp_matches({x}, {quoted(letters)})"
    if one.op in ("i64", "u64", "f64"):
        return converted_sql(one.op, parts[0])
    if one.op == "substr":
        return substr_sql(x, names[1], names[2] if len(names) > 2 else None)
    if one.type == "whole" and len(parts) == 2 and one.op in WHOLE_OPERATORS:
        return whole_sql(one.op, *names)
    if one.type == "real" and len(parts) == 2 and one.op in REAL_OPERATORS:
        r, s = (part.real for part in parts)
        return f"case when {s} <> 0 then {r} {one.op} {s} end" if one.op in "/%" else f"{r} {one.op} {s}"
    return {
        "not": f"not {x}", "is_null": f"{x} is null", "negative": f"-{x}", "~": f"-1 - {x}", "length": f"length({x})::hugeint",
        "starts_with": f"starts_with({listed})", "ends_with": f"suffix({listed})", "contains": f"contains({listed})",
        "coalesce": f"coalesce({listed})",
    }[one.op]


@dataclass
class Operand:
    sql: str  # the name of a column, or a constant
    type: str
    height: int  # from which it can be used
    real: str = ""  # the same as a double, if it is a number


def constant(type_, value):
    if value is None:
        return f"null::{TYPES[type_]}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{quoted(as_text(value) if isinstance(value, bytes) else repr(value))}::{TYPES[type_]}"


class Columns:
    """The SQL of several conditions: a statement with a column for each, from the table rows.

    Columns of one height are computed by one SELECT from those below; each passes on what is used above, and no more:
    DuckDB takes memory for 2,048 rows of each.
    """

    def __init__(self, conditions):
        self.levels = []  # of each height, the columns with their SQL
        self.used_at = {}  # by column, the greatest height that uses it
        self.count = 0
        self.names = [self.add(one).sql for one in conditions]
        self.use(self.names, len(self.levels))

    def add(self, one):
        if one.op == "literal":
            real = "" if one.type not in ("whole", "real") else constant("real", None if one.literal is None else float(one.literal))
            return Operand(constant(one.type, one.literal), one.type, 0, real)
        if one.op == "column":
            made = Operand(one.literal, one.type, 0)
        else:
            parts = [self.add(part) for part in one.of]
            kinds = {part.type for part in parts}
            if one.type == "real" or "real" in kinds:
                for part in parts:
                    self.as_real(part)
            name = self.set(node_sql(one, parts), *parts)
            if one.type == "whole" and one.op in MAY_LEAVE_THE_RANGE:
                name = self.set(f"case when {name.sql} between {LEAST} and {GREATEST} then {name.sql} end", name)
            made = Operand(name.sql, one.type, name.height)
        if one.type == "real":
            made.real = made.sql
        return made

    def as_real(self, part):
        if part.type == "whole" and not part.real:
            real = self.set(real_sql(part.sql), part)
            part.real, part.height = real.sql, real.height

    def set(self, sql, *parts):
        """A new column that is computed from these."""
        height = max(part.height for part in parts)
        self.use([name for part in parts for name in (part.sql, part.real)], height)
        while len(self.levels) <= height:
            self.levels.append([])
        name = f"n{self.count}"
        self.count += 1
        self.levels[height].append((name, sql))
        return Operand(name, "", height + 1)

    def use(self, names, height):
        for name in names:
            self.used_at[name] = max(height, self.used_at.get(name, 0))

    def statement(self):
        source, there = "rows", ["n", *(name for name, _ in COLUMNS)]
        for height, level in enumerate(self.levels):
            there = ["n", *(name for name in there[1:] if self.used_at.get(name, 0) > height)]
            source = f"(select {', '.join(there + [f'{sql} as {name}' for name, sql in level])} from {source})"
            there += [name for name, _ in level]
        return f"select {', '.join(self.names)} from {source} order by n"
