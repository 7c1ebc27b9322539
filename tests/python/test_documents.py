# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Executes the Python code of docs/guide/python.md, and each notebook of examples/python."""
import contextlib
import io
import json
import os
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def execute(name, blocks):
    """Executes blocks of code one after another in a folder of their own. Gives the names that they define."""
    names = {"__name__": "__main__"}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, block in enumerate(blocks, 1):
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block, f"{name}, block {number}", "exec"), names)
        finally:
            os.chdir(before)
    return names


class Documents(unittest.TestCase):
    def test_the_guide(self):
        text = (ROOT / "docs/guide/python.md").read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        self.assertGreater(len(blocks), 4)
        names = execute("docs/guide/python.md", blocks)
        self.assertEqual((names["part"].exit_code, names["run"].output), (124, "hello\nhello\n"))
        self.assertEqual(len(names["table"].frame), 8)

    def test_the_notebooks(self):
        notebooks = sorted((ROOT / "examples/python").glob("*.ipynb"))
        self.assertTrue(notebooks)
        for notebook in notebooks:
            with self.subTest(notebook.name):
                cells = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
                self.assertEqual([cell["outputs"] for cell in cells], [[]] * len(cells), "strip the outputs")
                execute(notebook.name, ["".join(cell["source"]) for cell in cells])


if __name__ == "__main__":
    unittest.main()
