"""Sums as texts that show their tree."""


def merged(left, right):
    """The sum of two texts."""
    return f"({left}{right})"


def tree_of(first, last):
    """The tree by its definition: the left part is the largest power of two."""
    if last - first == 1:
        return str(first)
    half = 1 << ((last - first - 1).bit_length() - 1)
    return merged(tree_of(first, first + half), tree_of(first + half, last))
