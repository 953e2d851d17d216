"""Tests of the page runner."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.page_runner import run_page

PAGE = """\
```sh
greeting="hello"
```

<!-- not run: it would exit -->
```sh
exit 1
```

- in a list

  ```sh
  test "$greeting" = hello && echo "$greeting, someone"
  ```

```python
raise SystemExit("it went wrong")
```

```sh
echo "not reached"
```

```
unknown
```
"""


def test_blocks_share_a_session_until_one_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = {"PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"}
    run = run_page(page, folder, path, {"someone": "reader"})
    assert run.done == {2, 13}
    assert "hello, reader" in run.output
    assert "it went wrong" in run.output
    assert "\nnot reached" not in run.output


def test_finds_marks_and_languages(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = [(block.language, block.reason) for block in blocks_of(page)]
    assert found[1] == ("sh", "it would exit")
    assert [language for language, reason in found if not reason] == ["sh", "sh", "python", "sh", ""]
