"""Trees named on the command line, positions that are leaves of a table, and questions about its labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semilocal import SphereTree
from semilocal.errors import InvalidInput
from semilocal.io.points import read_points
from semilocal.io.queries import label_queries, read_queries
from semilocal.io.trees import label_tree, read_tree

PATHS = [["heart", "I20-I25", "I20"], ["heart", "I20-I25", "I21"], ["heart", "I63"], ["lung", "J18"], ["lung", "J44"]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "icd.json"
    path.write_text(json.dumps({"name": "code", "paths": PATHS}))
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text)
    return path


def test_labels_stand_for_their_leaves(tmp_path: Path, table: Path) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    file = written(tmp_path, "who,code,cost\na, J44 ,3\nb,I20,4\na,I63,5\n")
    found = read_points(file, columns=["code"], values=["cost"], labels=["who"], words=tree.leaves)
    assert found.points.tolist() == tree.positions(["J44", "I20", "I63"]).tolist()
    assert found.values["cost"].tolist() == [3, 4, 5]
    codes = found.labels["who"].tolist()
    assert codes[0] == codes[2] != codes[1]
    assert read_points(file, columns=["code"], words=tree.leaves).points.shape == (3, 1)


@pytest.mark.parametrize("label", ["X99", "heart", ""])
def test_a_label_that_is_no_leaf_is_refused_with_its_line_and_not_repeated(
    tmp_path: Path, table: Path, label: str
) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    with pytest.raises(InvalidInput, match="line 3: column 'code' holds no leaf of the table") as caught:
        read_points(written(tmp_path, f"code,n\nI20,1\n{label},1\n"), columns=["code"], words=tree.leaves)
    assert not label or label not in str(caught.value).replace(str(tmp_path), "")


def test_only_a_table_with_labels_is_one(tmp_path: Path) -> None:
    cuts = tmp_path / "age.json"
    cuts.write_text(json.dumps({"name": "age", "cuts": [[0, 18, 65, 120]]}))
    assert [label_tree(text) for text in (str(cuts), "world", "sphere", None)] == [None] * 4


def test_questions_about_labels_of_any_depth(tmp_path: Path, table: Path) -> None:
    tree = label_tree(str(table))
    assert tree is not None
    asked = read_queries(written(tmp_path, "label,note\nheart,a\nI21,b\n"), tree.box, tree)
    assert asked.named
    assert asked.boxes[:, :, 0].tolist() == [[0, 3], [1, 2]]
    assert dict(asked.properties) == {"label": ["heart", "I21"], "note": ["a", "b"]}
    with pytest.raises(InvalidInput, match="line 3: 'J99' is not a label of 'code'"):
        read_queries(written(tmp_path, "code\nheart\nJ99\n"), tree.box, tree)
    every = label_queries(tree)
    assert every.properties["label"][:3] == ["code", "heart", "lung"]
    assert every.boxes[0, :, 0].tolist() == [0, 5]


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
