"""Compile the sources against the installed jaxlib and oneDNN, both from their packages on PyPI."""

import shutil
import sys
from importlib import metadata
from pathlib import Path

import jaxlib
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def folder_of(package: str, name: str) -> str:
    """Return the folder in which a package has put the file of this name."""
    file = next(file for file in metadata.files(package) or () if file.name == name)
    return str(Path(str(file.locate())).resolve().parent)


class Build(build_ext):
    """Says what is missing if there is no compiler."""

    def build_extensions(self) -> None:
        """Compile."""
        compiler = self.compiler.compiler_cxx[0]
        if shutil.which(compiler) is None:
            sys.exit(
                f"metapl-onednn needs a C++ compiler, and there is no {compiler} here. Install one (Debian, Ubuntu: "
                "apt install g++), or go without: metapl does not need this package, it is only faster with it."
            )
        super().build_extensions()


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "metapl_onednn._convolution",
            ["convolution.cc", "direct.cc", "sums.cc", "winograd.cc"],
            depends=["direct.h", "parallel.h", "processors.h", "vectors.h", "winograd.h"],
            language="c++",
            include_dirs=[
                str(Path(jaxlib.__file__).parent / "include"),
                folder_of("onednn-devel-cpu-gomp", "dnnl.hpp"),
            ],
            library_dirs=[folder_of("onednn-cpu-gomp", "libdnnl.so.3")],
            libraries=["dnnl", "gomp"],
            extra_compile_args=["-std=c++17", "-O3", "-fopenmp"],
        )
    ],
)
