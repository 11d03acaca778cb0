"""Files read through their compression and out of their archive: the same bytes, or one line that says why not."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pyarrow as pa
import pytest

from graph_store.byte_file import ByteFile
from graph_store.errors import BadInput

TEXT = b"".join(b"%d,%d\n" % (row, row * 7919 % 1000003) for row in range(30_000))
COMPRESS = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}
PACKED = [name for name in COMPRESS if name != "plain"]


def content(path, member=None):
    with ByteFile(path, member) as file:
        pieces = []
        while piece := file.read(70_001):
            pieces.append(piece)
        assert all(len(piece) == 70_001 for piece in pieces[:-1])
        assert file.head == pieces[0][:512]
    return b"".join(pieces)


def refusal(path, member=None):
    with pytest.raises(BadInput) as error:
        content(path, member)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def tar(files, *, format=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        folder = tarfile.TarInfo("data")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("data")
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture
def write(tmp_path):
    def write(data, name="edges.csv"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("kind", COMPRESS)
def test_the_text_comes_back_whatever_the_name(write, kind):
    assert content(write(COMPRESS[kind](TEXT))) == TEXT


@pytest.mark.parametrize("kind", COMPRESS)
def test_one_file_after_another_is_read_as_one(write, kind):
    compress = COMPRESS[kind]
    assert content(write(compress(TEXT) + compress(b"") + compress(b"1,2\n"))) == TEXT + b"1,2\n"


@pytest.mark.parametrize("kind", PACKED)
def test_a_file_cut_off_or_damaged_is_refused_in_one_line(write, kind):
    packed = COMPRESS[kind](TEXT)
    assert "ends too early; it was cut off, fetch it again" in refusal(write(packed[:-20]))
    assert "ends too early" in refusal(write(packed[: len(packed) // 2]))
    assert "cannot read the file" in refusal(write(packed[:12] + bytes(64) + packed[76:]))


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_junk_behind_a_compressed_file_is_refused(write, kind):
    assert "cannot read the file" in refusal(write(COMPRESS[kind](TEXT) + b"junk" * 9))


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_of_a_tar_archive_is_read(write, kind, format):
    path = write(COMPRESS[kind](tar({"data/test.txt": b"9 9\n", "data/train.txt": TEXT}, format=format)), "a.tar")
    assert content(path, "data/train.txt") == TEXT
    assert content(path, "data/test.txt") == b"9 9\n"
    with ByteFile(path, "data/train.txt") as file:
        assert (file.name, file.member) == ("train.txt", "data/train.txt")


def test_a_member_of_a_zip_archive_is_read(write):
    path = write(zip_({"data/test.txt": b"9 9\n", "data/train.txt": TEXT}), "a.zip")
    assert content(path, "data/train.txt") == TEXT
    with ByteFile(path, "data/test.txt") as file:
        assert (file.name, file.size) == ("test.txt", path.stat().st_size)


@pytest.mark.parametrize("pack", [tar, zip_, lambda files: gzip.compress(tar(files))])
def test_the_only_file_is_taken_and_of_several_one_must_be_named(write, pack):
    litter = {"__MACOSX/x": b"x", "data/._train.txt": b"x", "data/.DS_Store": b"x"}
    assert content(write(pack({"data/train.txt": TEXT} | litter))) == TEXT
    path = write(pack({"a.txt": b"1 2\n", "b.txt": TEXT}))
    assert refusal(path) == ": the archive holds 2 files: 'a.txt', 'b.txt'; say member = \"a.txt\""
    assert refusal(path, "bb.txt") == ": the archive has no member 'bb.txt'; did you mean 'b.txt'?"
    assert "the archive holds no file" in refusal(write(pack({})))


def test_names_that_begin_with_a_dot_and_a_slash_are_met(write):
    path = write(tar({"./a.txt": b"1 2\n", "./b.txt": TEXT}))
    assert content(path, "b.txt") == content(path, "./b.txt") == TEXT


@pytest.mark.parametrize("pack", [tar, zip_])
def test_a_compressed_file_within_an_archive_is_read_through_both(write, pack):
    path = write(pack({"edges.csv.gz": gzip.compress(TEXT)}))
    assert content(path) == TEXT
    with ByteFile(path) as file:
        assert file.name == "edges.csv"


def test_a_member_of_what_is_no_archive_is_refused(write):
    assert refusal(write(TEXT), "a.txt") == ": is no archive, but member is 'a.txt'; leave it out"


def test_damaged_archives_are_refused_in_one_line(write):
    packed = zip_({"a.txt": TEXT})
    assert "cannot read the file" in refusal(write(packed[: len(packed) // 2]))
    middle = len(packed) // 2
    assert "cannot read the file" in refusal(write(packed[:middle] + bytes(64) + packed[middle + 64 :]))
    plain = tar({"a.txt": TEXT})
    assert "ends too early" in refusal(write(plain[: len(plain) // 2]))
    packed = gzip.compress(plain)
    assert "ends too early" in refusal(write(packed[: len(packed) // 2]), "a.txt")
    assert "ends too early" in refusal(write(packed[: len(packed) // 2]))


def test_an_encrypted_archive_is_refused_in_one_line(write):
    packed = zip_({"a.txt": TEXT})
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        headers = packed.split(magic)
        at = flags - len(magic)
        packed = magic.join([headers[0], *(rest[:at] + bytes([rest[at] | 1]) + rest[at + 1 :] for rest in headers[1:])])
    assert "cannot read the archive" in refusal(write(packed))


def test_an_absent_file_and_a_folder_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.csv")
    assert "cannot read the file" in refusal(tmp_path)
