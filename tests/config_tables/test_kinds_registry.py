"""Registries of kinds, and configs whose tables they decide about."""

from dataclasses import dataclass

import pytest

from fl_audit.config_tables import Kinds, Table, kinds_of


class Shape:
    """The base of the tables."""


class Circle(Table, Shape, frozen=True, tag_field="kind", tag="circle"):
    radius: float


class Square(Table, Shape, frozen=True, tag_field="kind", tag="square"):
    side: float


class Untagged(Table, Shape, frozen=True):
    pass


class NoShape(Table, frozen=True, tag_field="kind", tag="no_shape"):
    pass


@dataclass(frozen=True)
class ShapeKind:
    table: type[Table]


@pytest.fixture
def shapes() -> Kinds[ShapeKind]:
    shapes = Kinds[ShapeKind]("shape", Shape)
    shapes.register(ShapeKind(Circle))
    return shapes


def test_a_kind_is_found_by_its_table(shapes):
    assert shapes.kind_of(Circle(radius=1.0)).table is Circle
    assert shapes.tables == (Circle,)
    assert kinds_of(Shape) is shapes
    assert kinds_of(int) is None
    assert kinds_of(int | float) is None


def test_an_unknown_table_fails_loudly(shapes):
    with pytest.raises(TypeError, match="no shape is registered for Square"):
        shapes.kind_of(Square(side=1.0))
    shapes.register(ShapeKind(Square))
    assert shapes.kind_of(Square(side=1.0)).table is Square
    shapes.remove("square")
    with pytest.raises(TypeError, match="Square"):
        shapes.kind_of(Square(side=1.0))


def test_what_cannot_be_registered(shapes):
    with pytest.raises(ValueError, match="a shape 'circle' is registered already"):
        shapes.register(ShapeKind(Circle))
    with pytest.raises(TypeError, match="must inherit Shape and have a tag, got Untagged"):
        shapes.register(ShapeKind(Untagged))
    with pytest.raises(TypeError, match="must inherit Shape and have a tag, got NoShape"):
        shapes.register(ShapeKind(NoShape))
