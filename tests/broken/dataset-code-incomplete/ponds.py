"""A dataset whose table cannot be used."""

from fieldmark.data import Info


class Ponds:
    INFO = Info(title="Ponds", licence="CC0-1.0", citation="none")

    @staticmethod
    def read(root):
        return {}["species"]

    @staticmethod
    def look(root):
        return []

    @staticmethod
    def make(root, world, size):
        pass
