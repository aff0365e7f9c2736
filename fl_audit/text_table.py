"""Tables as aligned lines for the terminal: plans, reports and comparisons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_GAP = "  "


@dataclass(frozen=True)
class TextTable:
    r"""A table with its first column flush left and all others flush right.

    Attributes:
      rows: The cells of each row; a row that is one string is a heading across all columns.
      above: Titles over the headings; adjacent columns after the first with the same title share
        it. Empty for none.

    >>> table = TextTable(("method", "max", "sum"), ("bounds", ("one_run", "≥ 2.50", "–")))
    >>> print("\n".join(table.lines()))
    method      max  sum
    bounds
    one_run  ≥ 2.50    –
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str] | str]
    above: Sequence[str] = ()

    def lines(self, width: int | None = None) -> list[str]:
        """The lines of the table.

        If the columns need more than `width` characters, there are several tables below each other,
        separated by an empty line; columns that share a title stay together. If `width` is None,
        there is one table.
        """
        first = max(map(len, [*self._cells(0), *self.above[:1]]))
        tables = self._packed(first, width)
        lines = [["", *self._table(first, spans)] for spans in tables]
        return [line for table in lines for line in table][1:]

    def _cells(self, column: int) -> list[str]:
        rows = [row[column] for row in self.rows if not isinstance(row, str)]
        return [self.head[column], *rows]

    def _spans(self) -> list["_Span"]:
        """The columns after the first, those with a common title together."""
        spans: list[_Span] = []
        for column in range(1, len(self.head)):
            title = self.above[column] if self.above else ""
            width = max(map(len, self._cells(column)))
            if spans and self.above and spans[-1].title == title:
                before = spans.pop()
                spans.append(_Span(title, (*before.columns, column), (*before.widths, width)))
            else:
                spans.append(_Span(title, (column,), (width,)))
        return [span.with_room_for_title() for span in spans]

    def _packed(self, first: int, width: int | None) -> Iterator[list["_Span"]]:
        """The spans of each table, at least one."""
        table: list[_Span] = []
        for span in self._spans():
            needed = first + sum(len(_GAP) + other.width for other in (*table, span))
            if table and width is not None and needed > width:
                yield table
                table = []
            table = [*table, span]
        yield table

    def _table(self, first: int, spans: Sequence["_Span"]) -> Iterator[str]:
        columns = [column for span in spans for column in span.columns]
        widths = [width for span in spans for width in span.widths]

        def line(start: str, cells: Sequence[str], widths: Sequence[int]) -> str:
            right = [f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True)]
            return _GAP.join([f"{start:<{first}}", *right])

        if self.above:
            titles = [span.title for span in spans]
            yield line(self.above[0], titles, [span.width for span in spans])
        yield line(self.head[0], [self.head[column] for column in columns], widths)
        for row in self.rows:
            if isinstance(row, str):
                yield row
            else:
                yield line(row[0], [row[column] for column in columns], widths)


@dataclass(frozen=True)
class _Span:
    """Adjacent columns with a common title, and the number of characters that each needs."""

    title: str
    columns: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def width(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def with_room_for_title(self) -> "_Span":
        lacking = max(len(self.title) - self.width, 0)
        return _Span(self.title, self.columns, (*self.widths[:-1], self.widths[-1] + lacking))
