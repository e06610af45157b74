"""What should the tables of a domain answer? Dictionaries, looked through from end to end."""

from __future__ import annotations

from contextlib import contextmanager

from maia.domain.storage.store import From, OneOf, Until


class DictionaryStore:
    """Tables as dictionaries; a transaction works on copies, and a second one within it on the same."""

    def __init__(self):
        self.kept = {}
        self.open = None

    @contextmanager
    def transaction(self):
        if self.open is not None:
            yield self.open
            return
        self.open = DictionaryTables({name: dict(rows) for name, rows in self.kept.items()})
        try:
            yield self.open
            self.kept = self.open.kept
        finally:
            self.open = None

    reading = transaction


class DictionaryTables:
    def __init__(self, kept):
        self.kept = kept

    def rows(self, table):
        return self.kept.setdefault(table.name, {})

    def get(self, table, *key):
        return self.rows(table).get(key)

    def put(self, table, rows):
        for row in rows:
            self.rows(table)[tuple(getattr(row, name) for name in table.key)] = row

    def delete(self, table, where):
        gone = [key for key, row in self.rows(table).items() if meets(row, where)]
        for key in gone:
            del self.rows(table)[key]
        return len(gone)

    def find(self, table, where, *, limit, order=None, after=None, descending=False):
        names = (order,) if order else table.key
        found = [row for row in self.rows(table).values() if meets(row, where)]
        if after is not None:
            found = [row for row in found if is_beyond(getattr(row, names[0]), after, descending)]
        found.sort(key=lambda row: tuple(getattr(row, name) for name in names), reverse=descending)
        return found[:limit]

    def count(self, table, where):
        return sum(meets(row, where) for row in self.rows(table).values())

    def distinct(self, table, field, where, *, limit, after=None):
        found = {getattr(row, field) for row in self.rows(table).values() if meets(row, where)} - {None}
        return sorted(value for value in found if after is None or value > after)[:limit]


def is_beyond(value, after, descending):
    return value < after if descending else value > after


def meets(row, where):
    return all(meets_one(getattr(row, name), wanted) for name, wanted in where.items())


def meets_one(value, wanted):
    match wanted:
        case From(bound):
            return value is not None and value >= bound
        case Until(bound):
            return value is not None and value <= bound
        case OneOf(values):
            return value in values
    return value == wanted
