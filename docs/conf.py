"""How the documentation is built: `make docs`."""

import pkgutil
import re
from importlib.metadata import version as version_of

from sphinx.util import inspect

import dp_experts_adversaries
import dp_experts_agents
from dp_experts_env.spec import Parameters

project = "dp-experts-env"
release = version = version_of(project)
author = copyright = "the dp-experts-env authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "substitution"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"{project} {release}"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_use_ivar = True
napoleon_attr_annotations = False


def reference(package):  # type: ignore[no-untyped-def]
    """The reference of every module of a package, so that no new one is forgotten."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    return "\n".join(["```{eval-rst}", *(f".. automodule:: {name}\n" for name in names), "```"])


myst_substitutions = {
    "learners": reference(dp_experts_agents),
    "adversaries": reference(dp_experts_adversaries),
}


def headings_to_rubrics(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Turn Gymnasium's "## Description" in a docstring into what the parser of docstrings knows."""
    lines[:] = "\n".join(re.sub(r"^## (.+)", r".. rubric:: \1\n", line) for line in lines).split("\n")


def constructor(app, what, name, obj, options, signature, returns):  # type: ignore[no-untyped-def]
    """Show a class by its ``__init__``, not by the ``__new__`` that remembers the arguments."""
    if what == "class" and issubclass(obj, Parameters):
        found = inspect.signature(obj.__init__, bound_method=True)
        signature = inspect.stringify_signature(found, show_return_annotation=False, unqualified_typehints=True)
    return signature, returns


def setup(app):  # type: ignore[no-untyped-def]
    """Connect the above, the first before the parser of "Args:" and "Returns:" runs."""
    app.connect("autodoc-process-docstring", headings_to_rubrics, priority=1)
    app.connect("autodoc-process-signature", constructor)
