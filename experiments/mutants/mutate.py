"""Mutants of a module's source: one operator, number, argument, attribute or line changed.

No part of the change knows what the code is for, and none was chosen: all places of a module are
enumerated. Docstrings, `assert` and what raises are left alone.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_PACKAGES = ("tf", "tff", "tfp", "jax", "jnp", "lax", "np")
"""What another attribute of would be another function of a library, not another fact."""

_COMPARISONS = {ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.GtE: ast.Lt}


@dataclass(frozen=True)
class Mutant:
    """A changed module.

    Attributes:
      name: What is changed and where, the same in every run.
      source: The changed source.
    """

    name: str
    source: str


def mutants(source: str, names: tuple[str, ...]) -> list[Mutant]:
    """The mutants of some classes and functions of a module, in the order of its lines."""
    tree = ast.parse(source)
    functions: list[ast.FunctionDef] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            functions += [part for part in node.body if isinstance(part, ast.FunctionDef)]
        elif isinstance(node, ast.FunctionDef) and node.name in names:
            functions.append(node)
    found = []
    for function in functions:
        for node in _changeable(function):
            for words, changed in _changes(node, function):
                made = _with(tree, node, changed)
                line = f"{function.name}:{node.lineno}:{node.col_offset}"
                found.append(Mutant(f"{line} {words}", ast.unparse(made)))
    seen: dict[str, Mutant] = {}
    for one in found:
        seen.setdefault(one.source, one)
    return list(seen.values())


def _changeable(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function that may be changed."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        raises = any(isinstance(part, ast.Raise) for part in ast.walk(node))
        if is_text or isinstance(node, ast.Assert) or (raises and isinstance(node, ast.If)):
            continue
        yield node
        waiting.extend(
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.arguments)
        )


def _changes(node: ast.AST, function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST | None]]:
    """What may stand in a node's place, in words and as a node; None drops the line."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        other = _ARITHMETIC[type(node.op)]()
        yield "operator", ast.BinOp(node.left, other, node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign dropped", node.operand
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        yield (
            "comparison",
            ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators),
        )
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "number doubled", ast.Constant(2 * node.value or 1.0)
        if node.value:
            yield "number 0", ast.Constant(0.0)
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from _other_attributes(node, function)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        before = {a.arg for a in function.args.args} | {
            name.id
            for part in ast.walk(function)
            if isinstance(part, ast.Assign) and part.lineno < node.lineno
            for name in ast.walk(part.targets[0])
            if isinstance(name, ast.Name)
        }
        if node.targets[0].id in before:
            yield "line dropped", None


def _changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if node.args:
        yield "call dropped", node.args[0]
    if len(node.args) > 1:
        yield "call dropped for its second argument", node.args[1]
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", ast.Call(node.func, swapped, node.keywords)
    for index, keyword in enumerate(node.keywords):
        rest = node.keywords[:index] + node.keywords[index + 1 :]
        yield f"{keyword.arg} left out", ast.Call(node.func, node.args, rest)


def _other_attributes(
    node: ast.Attribute, function: ast.FunctionDef
) -> Iterator[tuple[str, ast.AST]]:
    """Another attribute that the function reads of the same thing."""
    of = ast.unparse(node.value)
    names = {
        part.attr
        for part in ast.walk(function)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == of
    }
    for name in sorted(names - {node.attr}) if of not in _PACKAGES else ():
        yield f"{name} in place of {node.attr}", ast.Attribute(node.value, name, node.ctx)


def _with(tree: ast.Module, old: ast.AST, new: ast.AST | None) -> ast.Module:
    """A copy of the module with a node in the place of another one; None drops a statement."""

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is old:
                return ast.Pass() if new is None else copy.deepcopy(new)
            return self.generic_visit(node)

    return ast.fix_missing_locations(Exchange().visit(_shared(tree, old)))


def _shared(node: ast.AST, old: ast.AST) -> ast.AST:
    """A copy of a tree that still holds one of its nodes itself."""
    return copy.deepcopy(node, {id(old): old})
