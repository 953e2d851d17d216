"""File names and file system paths as words."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, web
from server.text.english.rules import Rule, alternatives, rule

_EXTENSIONS = """
    txt md rst pdf doc docx odt rtf tex csv tsv xls xlsx ods ppt pptx json jsonl yaml yml toml ini cfg conf env
    lock xml html htm css scss js jsx mjs ts tsx vue svelte py pyc ipynb rb php java kt go rs c cc cpp h hpp cs
    swift sh bash zsh bat ps1 sql db log png jpg jpeg gif svg bmp webp ico tiff mp3 wav ogg opus flac aac m4a
    mp4 mkv mov avi webm zip tar gz tgz bz2 xz rar 7z exe dll so dmg iso bin deb rpm apk jar whl bak tmp dat pem
    key heic heif avif safetensors gguf onnx pt pth ckpt parquet
""".split()
_SPOKEN_EXTENSIONS = {
    "tar": "tar",
    "zip": "zip",
    "log": "log",
    "lock": "lock",
    "conf": "conf",
    "env": "env",
    "bin": "bin",
    "bat": "bat",
    "key": "key",
    "jar": "jar",
    "java": "java",
    "go": "go",
    "vue": "view",
    "swift": "swift",
    "bash": "bash",
    "bak": "back",
    "ini": "I N I",
    "exe": "E X E",
    "ico": "I C O",
    "avi": "A V I",
    "so": "S O",
    "iso": "I S O",
    "dat": "dat",
    "wav": "wave",
    "mov": "M O V",
    "rar": "rar",
    "deb": "deb",
    "mp3": "M P three",
    "mp4": "M P four",
    "m4a": "M four A",
    "7z": "seven Z",
    "bz2": "B Z two",
    "ps1": "P S one",
    "docx": "doc X",
    "doc": "doc",
    "tex": "tech",
    "toml": "tom L",
    "yaml": "yaml",
    "yml": "Y M L",
    "gif": "gif",
    "cfg": "config",
}
_PRODUCTS = frozenset(
    "node next vue react express three d3 nuxt ember backbone angular p5 chart discord socket".split()
)
"""Products whose names end in ``.js``. The dot is not read."""
_NEVER_ENDS = frozenset("so go c h key log lock env bin dat jar swift java bat".split())
"""Extensions that are also words: they need a path, an underscore or a digit before them, or a name in lower case."""
_FOLDERS = (
    "src lib bin etc usr var home tmp opt app apps docs test tests server client scripts config build dist public"
)

_FILE_NOUNS = frozenset("file files extension extensions format formats document documents".split())

_SPELLINGS = [*_EXTENSIONS, *(each.upper() for each in _EXTENSIONS if len(each) > 2 and each not in _NEVER_ENDS)]
_ANY_EXTENSION = alternatives(_SPELLINGS)
_SEGMENT = r"[\w.+@~\-]{1,200}"
_LINES = r"""
    (?: :(?P<line>\d{1,6})(?:[-–](?P<last>\d{1,6})|:(?P<column>\d{1,4}))?(?!\w|[.,:]\d)
      | \#(?P<anchor>[A-Za-z][\w\-]{0,60}) )?
"""
"""What may follow a file: ":42" (a line), ":42-50" (lines), ":42:7" (a line and a column) or "#setup" (a heading)."""
_PATH = rf"""
    (?<![\w/.:\\<¢€£¥])
    (?:
        \\\\[\w.\-]{{1,200}} (?:\\[\w.$\-]{{1,200}}){{1,30}} \\?
      | [A-Za-z]:\\ (?:[\w.+\-]{{1,200}} (?:\\[\w.+\-]{{1,200}}){{0,30}} \\?)?
      | (?:~|\.\.?)/ (?:{_SEGMENT} (?:/{_SEGMENT}){{0,30}} /?)?
      | / [a-zA-Z_.][\w.+\-]{{0,200}} (?:/{_SEGMENT}){{0,30}} /?
      | (?:{_FOLDERS.replace(" ", "|")}) (?:/{_SEGMENT}){{1,30}} /?
      | [a-zA-Z_.][\w.\-]{{0,100}} (?:/{_SEGMENT}){{0,30}} / [\w.\-]{{1,100}}\.(?:{_ANY_EXTENSION}) (?!\w)
    )
    {_LINES}
"""
_FILE = rf"""
    (?<![\w/.\\@<])
    (?P<stem>\.?[A-Za-z0-9_][\w\-]{{0,80}} (?:\.[\w\-]{{1,40}}){{0,3}}?)
    \.(?P<extension>{_ANY_EXTENSION}) (?![\w\-/(]|\.\w)
    {_LINES}
"""
"""A file: main.py, main.py:42."""
_HIDDEN = (
    "aws bash_profile bashrc cache config docker dockerignore editorconfig env eslintrc git gitattributes github "
    "gitignore gitmodules htaccess kube local npmrc prettierrc profile ssh tmp venv vimrc vscode zshrc"
).split()
"""Hidden files and folders: .bashrc."""
_ALONE = [each for each in _EXTENSIONS if each not in _NEVER_ENDS] + _HIDDEN
_EXTENSION_ALONE = rf"""
    (?<![\w.])\.(?P<extension>{_ANY_EXTENSION})(?=\s(?:{"|".join(sorted(_FILE_NOUNS))})\b)
  | (?<=[\s(,/])\.(?P<certain>{alternatives(_ALONE)})(?![\w\-/(]|\.\w)
"""


def _path(match: re.Match[str]) -> str:
    after = match.start("line") if match["line"] else match.start("anchor")
    path = match[0] if after < 0 else match[0][: after - 1 - match.start()]
    kept = path.rstrip(".")
    return speak_path(kept) + path[len(kept) :] + _lines(match)


def _lines(match: re.Match[str]) -> str:
    """Return " line forty-two", " lines forty-two to fifty", " line forty-two column seven" or " hash setup"."""
    if match["anchor"]:
        return f" hash {web.speak_pieces(match['anchor'])}"
    if match["line"] is None:
        return ""
    line = numbers.cardinal(int(match["line"]))
    if match["last"]:
        return f" lines {line} to {numbers.cardinal(int(match['last']))}"
    return f" line {line}" + (f" column {numbers.cardinal(int(match['column']))}" if match["column"] else "")


def speak_path(path: str) -> str:
    """Return a path in words: "slash etc slash hosts"."""
    folder, slash, name = path.rpartition("\\" if "\\" in path else "/")
    head = web.speak_pieces(folder + slash)
    return " ".join(filter(None, (head, speak_file(name))))


def speak_file(name: str) -> str:
    """Return a file name in words: "README.md" is "readme dot M D"."""
    if name in (".", ".."):
        return web.speak_pieces(name)
    stem, dot, extension = name.rpartition(".")
    if not dot:
        return web.speak_pieces(name)
    words = web.speak_pieces(stem)
    return f"{words} dot {_extension(extension)}".lstrip()


def _extension(extension: str) -> str:
    lower = extension.lower()
    if lower in _SPOKEN_EXTENSIONS:
        return _SPOKEN_EXTENSIONS[lower]
    return letters.spell(extension) if len(extension) <= 2 and extension.isalpha() else web.speak_pieces(extension)


def _extension_alone(match: re.Match[str]) -> str:
    return f"dot {_extension(match['extension'] or match['certain'])}"


def _file(match: re.Match[str]) -> str:
    stem, extension = match["stem"], match["extension"]
    if extension in _NEVER_ENDS and not (stem.islower() and len(stem) > 1) and not re.search(r"[_\d\-]", stem):
        return match[0]
    if extension == "js" and stem.lower() in _PRODUCTS:
        return f"{web.speak_pieces(stem)} J S"
    return speak_file(f"{stem}.{extension}") + _lines(match)


RULES: tuple[Rule, ...] = (
    rule(
        r"(?<=\))\.(?P<type>jpe?g|png|pdf|docx?|xlsx?|txt|zip|mp[34]|gif|csv|pptx?)(?!\w)",
        lambda match: f" dot {letters.part(match['type'])}",
        (").",),
    ),
    rule(_PATH, _path, ("/", "\\")),
    rule(_FILE, _file, [f".{extension}" for extension in _SPELLINGS]),
    rule(_EXTENSION_ALONE, _extension_alone, (" .", "(.", ",.", "/.")),
)
