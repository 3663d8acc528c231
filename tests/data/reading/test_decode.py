"""Picture files of every kind become RGB bytes; bad ones become an error that names them."""

import io
import os
import pickle
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapl.data.reading import decode
from metapl.data.reading.resize import TO_SCALE, centre_square
from metapl.data.sources import on_disk
from metapl.data.sources.source import BadImage, DataError, Files
from metapl.schema import ConfigError

RGB = np.random.RandomState(0).randint(0, 256, (6, 9, 3)).astype(np.uint8)


def save(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "tiff", "ppm", "webp"])
def test_lossless_formats_come_back_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"a.{suffix}", Image.fromarray(RGB), **({"lossless": True} if suffix == "webp" else {}))
    np.testing.assert_array_equal(decode.decode_file(path), RGB)


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "gif"])
def test_lossy_formats_come_back_as_rgb(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"a.{suffix}", Image.new("RGB", (9, 6), (200, 10, 10)))
    found = decode.decode_file(path)
    assert found.dtype == np.uint8
    assert found.shape == (6, 9, 3)
    assert np.abs(found.astype(int) - (200, 10, 10)).max() <= 4


@pytest.mark.parametrize(
    ("mode", "fill", "expected"),
    [
        ("1", 1, (255, 255, 255)),
        ("L", 77, (77, 77, 77)),
        ("LA", (77, 0), (77, 77, 77)),
        ("RGBA", (1, 2, 3, 0), (1, 2, 3)),
        ("I;16", 0x1234, (0x12, 0x12, 0x12)),
    ],
)
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str, fill: object, expected: tuple[int, ...]) -> None:
    found = decode.decode_file(save(tmp_path / "a.png", Image.new(mode, (4, 3), fill)))
    np.testing.assert_array_equal(found, np.broadcast_to(expected, (3, 4, 3)))


def test_palette_with_transparency(tmp_path: Path) -> None:
    image = Image.new("P", (4, 3), 1)
    image.putpalette([0, 0, 0, 9, 8, 7])
    found = decode.decode_file(save(tmp_path / "a.png", image, transparency=b"\x80\x40"))
    np.testing.assert_array_equal(found, np.broadcast_to((9, 8, 7), (3, 4, 3)))


def test_cmyk(tmp_path: Path) -> None:
    found = decode.decode_file(save(tmp_path / "a.jpg", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=100))
    assert np.abs(found.astype(int) - (255, 0, 0)).max() <= 4


def test_exif_orientation_is_honoured(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rows and columns change places
    path = save(tmp_path / "a.png", Image.fromarray(RGB), exif=exif)
    np.testing.assert_array_equal(decode.decode_file(path), np.rot90(RGB, -1))


def photo(height: int, width: int) -> Image.Image:
    """A picture with large and small structures."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 37 + k) * np.cos(y / 53) + 0.3 * np.sin((x + k * y) / 3) for k in range(3)]
    return Image.fromarray(np.uint8(np.clip(127 + 90 * np.stack(waves, -1), 0, 255)))


def test_a_large_jpeg_comes_reduced_but_large_enough(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", photo(800, 1200), quality=90)
    shapes = {shorter: decode.decode_file(path, shorter).shape[:2] for shorter in (0, 64, 100, 101, 300, 500)}
    assert shapes == {
        0: (800, 1200), 64: (100, 150), 100: (100, 150), 101: (200, 300), 300: (400, 600), 500: (800, 1200)
    }  # fmt: skip
    np.testing.assert_array_equal(decode.decode_bytes(path.read_bytes(), "a", 100), decode.decode_file(path, 100))


def test_other_formats_are_never_reduced(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", photo(80, 120))
    np.testing.assert_array_equal(decode.decode_file(path, 10), decode.decode_file(path))


def test_a_reduced_picture_scaled_is_close_to_the_whole_one_scaled(tmp_path: Path) -> None:
    images = Files((save(tmp_path / "a.jpg", photo(900, 1400), quality=90),))
    whole, reduced = centre_square(images[0], 64), on_disk.read(images, 0, 64)
    assert images.reduced(0, TO_SCALE * 64).shape == (225, 350, 3)
    assert np.abs(whole.astype(int) - reduced).mean() < 3  # of 255
    assert np.abs(whole.astype(int) - whole[::-1]).mean() > 20


def test_a_reduced_picture_is_turned_as_its_header_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its left side
    path = save(tmp_path / "a.jpg", photo(400, 800), exif=exif)
    assert decode.stored_as(path) == ("RGB", (800, 400))
    assert decode.decode_file(path, 100).shape == (200, 100, 3)


def test_a_large_jpeg_that_was_cut_off_is_refused_however_it_is_read(tmp_path: Path) -> None:
    whole = save(tmp_path / "a.jpg", photo(800, 1200)).read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    for shorter in (0, 100):
        with pytest.raises(BadImage, match="truncated"):
            decode.decode_file(tmp_path / "cut.jpg", shorter)


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [8001, 12_000, 60_000])
def test_decompression_bombs_are_refused_before_they_unpack(tmp_path: Path, side: int) -> None:
    # Pillow itself warns from 89 and refuses from 179 megapixels: our limit lies below, between and above.
    path = tmp_path / "bomb.png"
    path.write_bytes(png_that_claims(side, side))
    with pytest.raises(BadImage, match=r"bomb\.png: .*pixels.* allowed"):
        decode.decode_file(path)


def test_bad_files_are_named_with_the_reason(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.tile(RGB, (20, 20, 1))).save(whole, "JPEG")
    cases = {
        "empty.jpg": (b"", "the file is empty"),
        "text.jpg": (b"hello" * 100, "not a picture of a known kind"),
        "cut.jpg": (whole.getvalue()[:2000], "truncated"),
        # Pillow would hand it to Ghostscript, a program that runs what is in the file.
        "eps.jpg": (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
            "not a picture of a known kind",
        ),
    }
    for name, (content, reason) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadImage, match=reason) as caught:
            decode.decode_file(tmp_path / name)
        assert caught.value.name == str(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_missing_file_folder_and_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    for name in ("gone.jpg", "folder.jpg", "pipe.jpg"):
        with pytest.raises(BadImage, match=name):
            decode.decode_file(tmp_path / name)


@pytest.mark.parametrize("kind", ["<u2", ">u2", "<i2", "<u4", "<i4", ">i4", "<f4", ">f4"])
def test_tiffs_of_more_than_8_bits_are_seen_whole(tmp_path: Path, kind: str) -> None:
    signed = np.dtype(kind).kind == "i"
    pixels = (np.linspace(0, 3.9e9 if "u4" in kind else 4000, 12) - 2000 * signed).reshape(3, 4).astype(kind)
    (tmp_path / "a.tif").write_bytes(tiff_of(pixels))
    found = decode.decode_file(tmp_path / "a.tif")
    assert found.shape == (3, 4, 3)
    assert np.abs(found[..., 1].ravel() - np.linspace(0, 255, 12)).max() <= 1


def test_tiffs_say_which_way_is_up_and_which_value_is_none(tmp_path: Path) -> None:
    pixels = np.array([[-9999, 1], [2, 3]], np.float32)
    (tmp_path / "a.tif").write_bytes(tiff_of(pixels, [(274, 3, [6]), (42113, 2, list(b"-9999\0"))]))
    assert decode.decode_file(tmp_path / "a.tif")[..., 0].tolist() == [[128, 0], [255, 0]]
    (tmp_path / "a.tif").write_bytes(tiff_of(pixels[:1, :1], [(42113, 2, list(b"-9999\0"))]))
    with pytest.raises(BadImage, match="no pixel has a value"):
        decode.decode_file(tmp_path / "a.tif")


def tiff_of(pixels: np.ndarray, more: Sequence[tuple[int, int, list[int]]] = ()) -> bytes:
    """A grey TIFF in the array's own byte order; `more` are tags, each with its type (2: bytes, 3: short)."""
    order = ">" if pixels.dtype.byteorder == ">" else "<"
    (height, width), bits = pixels.shape, 8 * pixels.dtype.itemsize
    plain = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 273: 0, 277: 1, 278: height, 279: pixels.nbytes}
    kind = {"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]
    tags = sorted([*((tag, 4, [value]) for tag, value in plain.items()), (339, 3, [kind]), *more])
    end = 8 + 2 + 12 * len(tags) + 4
    rows, long = b"", b""
    for tag, form, values in tags:
        values = [end + 64] if tag == 273 else values
        raw = struct.pack(f"{order}{len(values)}{ {2: 'B', 3: 'H', 4: 'I'}[form] }", *values)
        if len(raw) > 4:
            raw, long = struct.pack(f"{order}I", end + len(long)), long + raw
        rows += struct.pack(f"{order}HHI", tag, form, len(values)) + raw.ljust(4, b"\0")
    head = struct.pack(f"{order}2sHIH", b"MM" if order == ">" else b"II", 42, 8, len(tags))
    return head + rows + bytes(4) + long.ljust(64, b"\0") + pixels.tobytes()


def test_bad_image_is_a_user_error_and_survives_a_process_border() -> None:
    error = pickle.loads(pickle.dumps(BadImage("a.jpg", "why")))
    assert (error.name, error.reason, str(error)) == ("a.jpg", "why", "a.jpg: why")
    assert isinstance(error, DataError)
    assert isinstance(error, ConfigError)


def test_files_decode_on_access(tmp_path: Path) -> None:
    good = save(tmp_path / "a.png", Image.fromarray(RGB))
    files = Files((good, tmp_path / "gone.png"))
    assert len(files) == 2
    assert files.name(1) == str(tmp_path / "gone.png")
    np.testing.assert_array_equal(files[0], RGB)
    with pytest.raises(BadImage, match=r"gone\.png"):
        files[1]
