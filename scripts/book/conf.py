"""Sphinx configuration of the book, which `make book` builds from the project's own Markdown pages into build/book.

Adds what the pages lack: the order of the chapters, a table at the beginning of each study and rung, and listings of
the source files and folders that pages link to. Broken links are warnings, and warnings fail the build."""

import json
import os
import pathlib
import re
import subprocess

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers import find_lexer_class_for_filename
from sphinx import addnodes
from sphinx.errors import ExtensionError

ROOT = pathlib.Path(__file__).resolve().parents[2]
LADDER, GROWING, EXERCISES = (f"experiments/{page}README" for page in ("", "growing/", "exercises/"))
MOST_WORDS = 12_000  # maximum number of words of the pages in "The first read", in total
WORDS_A_MINUTE = 120  # reading speed, as in experiments/README.md
EXPLAIN = ROOT / "build/explain", ROOT / "runs/tinyshakespeare/model.gguf"
# Folders of studies and numbers of rungs whose tables link to the page written by build/explain.
EXPLAINED = {"06_causal_mask", "07_heads", "09_llama", *range(4, 12)}
LISTED = {".cmake", ".cpp", ".cu", ".h", ".html", ".json", ".py", ".sh", ".toml", ".txt"}

project = html_title = "Folio"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**.md", "experiments/**.md", "infer/**.md", "modules/*.md", "python/*.md",
                    "tests/infer/cuda/host/*.md"]
exclude_patterns = ["build*", "data", "runs", "gpu_results", ".*", "**/hints", "**/__pycache__"]
myst_heading_anchors = 6  # headings of all six levels get anchors, as on GitHub
myst_enable_extensions = ["dollarmath"]  # GitHub's formulas; rendered as MathML, which needs no script
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = html_css_files = ["book.css"]
html_copy_source = smartquotes = False
html_show_search_summary = False  # search summaries fetch pages, which browsers forbid for file://
pygments_style, pygments_dark_style = "friendly", "github-dark"


def text_of(docname):
    return (ROOT / f"{docname}.md").read_text()


def pages_linked(docname, text):
    """Returns the names of the Markdown pages that the text of page `docname` links to, each once, in order."""
    links = re.findall(r"\]\(([^)#\s:]+)\.md(?:#[^)]*)?\)", text)
    return list(dict.fromkeys(os.path.normpath(os.path.join(os.path.dirname(docname), link)) for link in links))


def section(text, heading):
    """Returns the text between a heading of level 2 and the next one, or "" if there is no such heading."""
    return f"\n{text}".partition(f"\n{heading}\n")[2].partition("\n## ")[0]


FIRST_READ = [LADDER, *pages_linked(LADDER, section(text_of(LADDER), "## The first read"))]


def parent_of(docname, pages):
    """Returns the parent page of a page in docs/, such as docs/cli for docs/cli/train, or None."""
    above = [page for page in pages if page.startswith("docs/") and docname.startswith((f"{page}-", f"{page}/"))]
    return min(above, key=len, default=None)


def parts(pages):
    """Returns {title of each part of the book: its pages}. The last part has the pages that no other part lists."""
    studies = pages_linked(LADDER, text_of(LADDER).partition("| study | question |")[2])
    listed = {"First read": [page for page in FIRST_READ if page != EXERCISES],
              "Studies": [page for page in studies if page not in FIRST_READ], "Exercises": [EXERCISES],
              "Documentation": pages_linked("README", section(text_of("README"), "## Documentation"))}
    used = {"README", *sum(listed.values(), [])}
    return listed | {"More": [page for page in sorted(pages) if page not in used and not parent_of(page, pages)]}


def table(explained, name, needs, text, run, time, code, results):
    """Returns a chapter's table. `name` is a study's name or a rung's number. `results` are
    from the last full run. `explained` is a link to the page written by build/explain, or False."""
    minutes = max(1, round(len(re.sub(r"<!--.*?-->", "", text, flags=re.S).split()) / WORDS_A_MINUTE))
    texts = [re.sub(r"([*_`<$])", r"\\\1", result) for result in results]
    more = f"; and {len(texts) - 3} more" if len(texts) > 3 else ""
    rows = {"you need": ", ".join(needs), "minutes": f"{minutes} to read; to run: {time or 'not measured'}",
            "you run": f"`{run}`", "its code": f"[{code}]({code})",
            "its tests check": texts and f"[{len(texts)} results](results.json): {'; '.join(texts[:3])}{more}",
            "look inside": name in EXPLAINED and explained}
    items = "".join(f"* - {title}\n  - {cell}\n" for title, cell in rows.items() if cell)
    return f"\n```{{list-table}}\n:class: chapter\n:stub-columns: 1\n\n{items}```\n"


def results_of(folder):
    file = ROOT / "experiments" / folder / "results.json"
    results = json.loads(file.read_text())["results"] if file.exists() else []
    return [f"{result['text']} {result['relation']} {float(result['limit']):.6g}" for result in results]


def with_study_table(text, name, explained):
    """Adds a study's table below its title: how to run it (section "Run it"), its results, and what it needs."""
    lines = dict(re.findall(r"^    (\S.*?)(?:  +(?:# *)?(\S.*))?$", section(text, "## Run it"), re.M))
    run = next((line for line in lines if line.endswith(name)), f"build/experiments/{name}")
    build = (ROOT / "experiments/CMakeLists.txt").read_text()
    without = re.search(rf"folio_study\({name} folio_(?!experiments)", build)
    rung = re.search(rf"^\| \[(\d+ [^\]]+)\][^\n]*{name}/README", text_of(LADDER), re.M)
    needs = ["no LibTorch" if without else "LibTorch"] + ([f"[rung {rung[1]}](../growing/README.md)"] if rung else [])
    first = re.compile("build/train tiny|make smol")
    needs += [f"`{line}` ({note.split(':')[0]})" for line, note in lines.items() if first.match(line)]
    title, rest = text.split("\n", 1)
    time = re.split(r"; |: ", lines.get(run, ""))[0]
    return title + "\n" + table(explained, name, needs, text, run, time, "main.cpp", results_of(name)) + rest


def with_rung_tables(text, explained):
    """Adds a table below the heading of each rung, "## NUMBER · NAME"."""
    found = re.search(r"all rungs: ([^|]*\w)", text_of(LADDER))
    time = f"{found[1]} for all rungs" if found else ""

    def added(match):
        number = int(match[1])
        code = next((ROOT / "experiments/growing").glob(f"{number:02}_*.h")).name
        own = [result.split(": ", 1)[1] for result in results_of("growing") if result.startswith(f"{number} ")]
        needs = [f"rung {number - 1}" if number > 1 else "programming", "LibTorch"]
        return match[0] + table(explained, number, needs, section(text, match[0].strip()),
                                f"build/experiments/growing --rung {number}", time, code, own)

    return re.sub(r"^## (\d+) · .*\n", added, text, flags=re.M)


def read_source(app, docname, source):
    """Adds chapter tables and toctrees to a page's source."""
    text, pages, folder = source[0], app.env.found_docs, docname.split("/")[-2:][0]
    explained = app.folio_explains and '<a href="../../explain.html">the default run\'s model</a>'
    trees = {"": [page for page in sorted(pages) if parent_of(page, pages) == docname]}
    if docname == GROWING:
        text = with_rung_tables(text, explained)
    elif re.match(r"\d\d_", folder):
        text = with_study_table(text, folder, explained)
    elif docname == "README":
        text = re.sub(r"^\[!\[CI\].*\n", "", text, flags=re.M)  # the CI badge, an image on GitHub
        trees = parts(pages)
    for title, listed in trees.items():
        caption = f":caption: {title}\n" if title else ""
        text += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n/" + "\n/".join(listed) + "\n```\n" if listed else ""
    source[0] = text


def listing(app, docname, path, *contents):
    """Returns a link to the listing of a file or folder."""
    uri = app.builder.get_relative_uri(docname, f"source/{path}")
    return nodes.reference("", "", *contents, internal=True, refuri=uri)


def read_doctree(app, doctree):
    """Counts the rendered words of the pages in FIRST_READ. Makes links to source files and folders lead to their
    listings, or to a folder's README; Sphinx would make source files downloads."""
    docname = app.env.docname
    app.folio_words += len(doctree.astext().split()) if docname in FIRST_READ else 0
    for node in [*doctree.findall(addnodes.pending_xref), *doctree.findall(addnodes.download_reference)]:
        path = pathlib.Path(os.path.normpath(os.path.join(os.path.dirname(docname), node["reftarget"])))
        is_folder = node["refdomain"] is None and ".." not in path.parts and (ROOT / path).is_dir()
        if is_folder and f"{path}/README" in app.env.found_docs:
            node.attributes.update(refdomain="doc", reftarget=f"{path}/README", reftargetid=None)
        elif is_folder or (node["refdomain"] is None and path.suffix in LISTED and (app.srcdir / path).is_file()):
            app.folio_listed.add(path)
            node.replace_self(listing(app, docname, path, *node.children))


def listings(app):
    """Yields a page for each source file and folder that pages link to. These pages are not in the search index."""
    for path in sorted(app.folio_listed):
        if (ROOT / path).is_dir():
            files = sorted(file.relative_to(ROOT) for file in (ROOT / path).rglob("*") if file.suffix in LISTED)
            to = {file: listing(app, f"source/{path}", file)["refuri"] for file in files if file in app.folio_listed}
            items = [f'<li><a href="{to[file]}">{file}</a>' if file in to else f"<li>{file}" for file in files]
            body = f'<ul>{"".join(items)}</ul>'
        else:
            app.env.dlfiles.pop(path, None)  # keeps Sphinx from copying the file
            lexer = find_lexer_class_for_filename(path.name)
            language = lexer.aliases[0] if lexer else "text"
            body = app.builder.highlighter.highlight_block((app.srcdir / path).read_text(), language, force=True)
        yield f"source/{path}", {"title": path, "body": f'<h1 class="file">{path}</h1>{body}'}, "page.html"


def begin(app):
    """Runs build/explain on the default run's model and writes its page, if the program and the model exist."""
    app.folio_listed, app.folio_words, app.folio_explains = set(), 0, all(path.exists() for path in EXPLAIN)
    if app.folio_explains:
        args = [EXPLAIN[0], "ROMEO:", "-m", EXPLAIN[1], "-o", app.outdir / "explain.html"]
        app.folio_explains = subprocess.run(args).returncode == 0
        if not app.folio_explains:
            print(f"{EXPLAIN[0]} failed; the book has no page of explain")


def finish(app, exception):
    if exception:
        return
    (app.outdir / "index.html").write_text('<!doctype html><meta charset="utf-8"><title>Folio</title><meta http-equiv='
                                           '"refresh" content="0; url=README.html"><a href="README.html">Folio</a>\n')
    print(f"{app.outdir}/index.html: {len(app.env.found_docs)} pages, {len(app.folio_listed)} listings; "
          f"the first read has {app.folio_words:,} words")
    if app.folio_words > MOST_WORDS:
        raise ExtensionError(f"the first read has {app.folio_words:,} words, {MOST_WORDS:,} allowed; shorten its pages")


def write_math(writer, node):
    writer.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    for event, function in {"builder-inited": begin, "source-read": read_source, "doctree-read": read_doctree,
                            "html-collect-pages": listings, "build-finished": finish}.items():
        app.connect(event, function)
