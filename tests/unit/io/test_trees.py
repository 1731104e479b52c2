"""Trees named on the command line: what is read, what is refused with the file and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from semilocal import SphereTree
from semilocal.errors import InvalidInput
from semilocal.io.trees import read_tree


def test_the_sphere_and_tables_are_read_and_boxes_are_left_to_others(tmp_path: Path) -> None:
    cuts, paths = tmp_path / "age.json", tmp_path / "code.JSON"
    cuts.write_text('{"name": "age", "cuts": [[0, 18, 120], [0, 6, 18, 65, 120]]}')
    paths.write_text('{"name": "code", "paths": [["a", "a1"], ["a", "a2"], ["b"]]}')
    assert read_tree("sphere") == SphereTree(40)
    for path, leaves in ((cuts, 4), (paths, 3)):
        tree = read_tree(str(path))
        assert tree is not None
        assert tree.box.upper == (120.0 if leaves == 4 else 3.0,)
    assert read_tree("world") is None
    assert read_tree("0,0,1,1") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "not a table"),
        ('{"name": "x"}', "one of them"),
        ('{"name": "x", "cuts": [[0, 1, 2]], "paths": [["a"], ["b"]]}', "one of them"),
        ('{"name": "x", "cuts": [[0, 2, 1]]}', "overlap"),
        ('{"name": "x", "cuts": [[0, 1, 2]], "colour": "red"}', "not a table"),
        ('{"name": "x", "paths": [["a", "b"], ["c", "b"]]}', "row 1: 'b'"),
        ("{", "not a table"),
    ],
)
def test_a_file_that_is_no_table_is_refused_by_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words) as refused:
        read_tree(str(path))
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"missing\.json: No such file"):
        read_tree("missing.json")
