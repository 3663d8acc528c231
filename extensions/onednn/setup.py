"""Compile the sources against the installed jaxlib and oneDNN, both from their packages on PyPI."""

from importlib import metadata
from pathlib import Path

import jaxlib
from setuptools import Extension, setup


def folder_of(package: str, name: str) -> str:
    """Return the folder in which a package has put the file of this name."""
    file = next(file for file in metadata.files(package) or () if file.name == name)
    return str(Path(str(file.locate())).resolve().parent)


setup(
    ext_modules=[
        Extension(
            "metapl_onednn._convolution",
            ["convolution.cc", "winograd.cc"],
            depends=["parallel.h", "winograd.h"],
            language="c++",
            include_dirs=[
                str(Path(jaxlib.__file__).parent / "include"),
                folder_of("onednn-devel-cpu-gomp", "dnnl.hpp"),
            ],
            library_dirs=[folder_of("onednn-cpu-gomp", "libdnnl.so.3")],
            libraries=["dnnl", "gomp"],
            extra_compile_args=["-std=c++17", "-O3", "-fopenmp"],
        )
    ]
)
