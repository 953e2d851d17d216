"""What the tests of pages notice."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.reading import read

PAGE = """\
```sh
greeting="hello"
```

<!-- not run: it would end everything -->
```sh
exit 1
```

- in a list

  ```sh
  test "$greeting" = hello && echo "$greeting, somebody"
  ```

```python
raise SystemExit("it went wrong")
```

```sh
echo "not reached"
```

```
who knows
```
"""


def test_blocks_share_a_session_until_one_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = {"PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"}
    reading = read(page, folder, path, {"somebody": "reader"})
    assert reading.done == {2, 13}
    assert "hello, reader" in reading.told
    assert "it went wrong" in reading.told
    assert "\nnot reached" not in reading.told


def test_marks_and_languages_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = [(block.language, block.reason) for block in blocks_of(page)]
    assert found[1] == ("sh", "it would end everything")
    assert [language for language, reason in found if not reason] == ["sh", "sh", "python", "sh", ""]
