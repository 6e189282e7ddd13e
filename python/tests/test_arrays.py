# SPDX-License-Identifier: Apache-2.0
"""rung.Array and exchange through DLPack: who owns memory, how long, and that nothing leaks."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from conftest import same, torch_has
from test_gather import New, Old

import rung
from rung.arrays import CUDA, Array, Foreign
from rung.dtypes import BY_NAME, DTYPES


class Owner:
    """Memory of an array whose release can be observed."""

    def __init__(self, count: int):
        self.memory = np.arange(count, dtype=np.uint8)


def owned(dtype="f32", shape=(3, 4), device=(1, 0)):
    """Return an array and a weak reference to the owner of its memory."""
    size = int(np.prod(shape, dtype=int)) * BY_NAME[dtype].dlpack[1] // 8
    owner = Owner(max(size, 1))
    if dtype == "bool":
        owner.memory %= 2
    return Array(owner.memory.ctypes.data, shape, BY_NAME[dtype], owner, device), weakref.ref(owner)


def dies(owner) -> bool:
    gc.collect()
    return owner() is None


def test_attributes():
    array, _ = owned()
    assert ((array.shape, array.dtype.name, array.device, array.nbytes,
             len(array)) == ((3, 4), "f32", "cpu", 48, 3))
    assert repr(array) == "rung.Array(shape=(3, 4), dtype=f32, device=cpu)"
    assert (owned(device=(CUDA, 2))[0].device == "cuda:2" and owned(shape=())[0].nbytes == 4
            and owned(shape=(3, 0))[0].nbytes == 0)


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
def test_numpy_shares_the_memory(dtype):
    array, owner = owned(dtype)
    found = array.numpy()
    assert (found.dtype == np.dtype(BY_NAME[dtype].numpy) and found.shape == (3, 4)
            and found.ctypes.data == array.data)
    assert found.tobytes() == owner().memory.tobytes()
    found[0, 0] = found[2, 3]
    assert array.numpy()[0, 0] == found[2, 3]
    part = found[1:]
    del array, found
    assert not dies(owner)
    del part
    assert dies(owner)


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (9, 3)])
def test_capsules_hold_the_memory(dtype, version):
    array, owner = owned(dtype, (2, 3, 4))

    class Source:
        def __dlpack__(self, **_):
            return array.__dlpack__(max_version=version)   # noqa: F821

    taken = Foreign(Source())
    assert ((taken.data, taken.shape, taken.dtype, taken.device, taken.contiguous,
             taken.read_only) == (array.data, (2, 3, 4), BY_NAME[dtype], (1, 0), True, False))
    assert taken.strides == (12, 4, 1)
    del array
    assert not dies(owner)
    del taken
    assert dies(owner)


def test_an_unused_capsule_releases_its_memory():
    for version in (None, (1, 0)):
        array, owner = owned()
        capsule = array.__dlpack__(max_version=version)
        del array
        assert not dies(owner)
        del capsule
        assert dies(owner)


def test_the_death_of_a_capsule_keeps_a_pending_exception():
    """Its destructor runs while a TypeError propagates."""
    for version in (None, (1, 0)):
        array, owner = owned()
        with pytest.raises(TypeError, match="PyCapsule"):
            int(array.__dlpack__(max_version=version))
        del array
        assert dies(owner)


def test_a_capsule_can_be_consumed_once():
    array, owner = owned()
    capsule = array.__dlpack__()

    class Source:
        def __dlpack__(self):
            return capsule   # noqa: F821

    first = Foreign(Source())
    with pytest.raises(rung.InvalidError, match=r"Source.__dlpack__\(\): .* unused DLPack"):
        Foreign(Source())
    del array, first, capsule
    assert dies(owner)


def test_capsules_of_gpu_arrays_name_the_device():
    """The memory is never read."""
    array = Array(64, (5, 2), BY_NAME["bf16"], None, (CUDA, 3))
    taken = Foreign(array)
    assert ((taken.data, taken.shape, taken.dtype.name,
             taken.device) == (64, (5, 2), "bf16", (CUDA, 3))
            and array.__dlpack_device__() == (CUDA, 3))
    with pytest.raises(rung.InvalidError, match="numpy reads host memory"):
        array.numpy()
    with pytest.raises(rung.InvalidError):
        np.asarray(array)
    with pytest.raises(BufferError, match="dl_device="):
        array.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="does not copy"):
        array.__dlpack__(copy=True)
    assert isinstance(array.__dlpack__(dl_device=(CUDA, 3), copy=False, stream=1), object)


def test_empty_arrays():
    array, _ = owned(shape=(0, 4))
    assert array.numpy().shape == (0, 4)
    taken = Foreign(array)
    assert taken.shape == (0, 4) and taken.contiguous and taken.data == 0


def test_numpy_conversions():
    array, _ = owned("i32", (6,))
    assert (np.asarray(array).ctypes.data == array.data
            and np.array(array, copy=True).ctypes.data != array.data)
    assert np.asarray(array, np.float64).dtype == np.float64
    assert array.__array__(np.int32).ctypes.data == array.data
    with pytest.raises(ValueError, match="copy=False"):
        array.__array__(np.float64, copy=False)
    seen = array.view(BY_NAME["f32"])
    assert (seen.data, seen.shape, seen.dtype.name) == (array.data, (6,), "f32")
    with pytest.raises(rung.InvalidError, match="widths differ; use a type of 32 bits"):
        array.view(BY_NAME["f64"])


@pytest.mark.parametrize("form", [Old, New])
def test_foreign_memory_is_released(form):
    memory = np.arange(12, dtype=np.uint16).reshape(3, 4)
    alive = weakref.ref(memory)
    taken = Foreign(form(memory))
    assert (taken.shape, taken.dtype.name, taken.data) == ((3, 4), "u16", memory.ctypes.data)
    del memory
    gc.collect()
    assert alive() is not None
    del taken
    gc.collect()
    assert alive() is None


def test_strided_foreign_memory():
    memory = np.zeros((4, 6), np.int64)
    assert not Foreign(Old(memory[:, ::2])).contiguous and not Foreign(Old(memory.T)).contiguous
    assert Foreign(Old(memory[1:3])).contiguous and Foreign(Old(memory[:1, :])).contiguous
    assert Foreign(Old(memory[1:3])).data == memory.ctypes.data + 48
    assert Foreign(Old(memory[:, ::2])).strides == (6, 2)
    assert Foreign(Old(np.zeros((1, 5, 1), np.int8))).contiguous


def test_unsupported_foreign_types():
    assert Foreign(Old(np.zeros(3, np.complex64))).dtype is None

    class Nothing:
        def __dlpack__(self, **_):
            return object()

    with pytest.raises(rung.InvalidError, match="Nothing"):
        Foreign(Nothing())


def test_a_capsule_of_unknown_version_is_not_consumed():
    if tuple(map(int, np.__version__.split(".")[:2])) < (2, 1):
        pytest.skip(f"numpy {np.__version__} creates no versioned capsules; 2.1 does")
    array, owner = owned()
    capsule = array.__dlpack__(max_version=(1, 0))
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_uint32.from_address(address(capsule, b"dltensor_versioned")).value = 2

    class Source:
        def __dlpack__(self, **_):
            return capsule   # noqa: F821

    with pytest.raises(rung.InvalidError, match=r"DLPack 2\.0"):
        Foreign(Source())
    del array, capsule, Source
    assert dies(owner)


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
def test_torch_shares_the_memory(dtype):
    torch = pytest.importorskip("torch")
    array, owner = owned(dtype)
    if not torch_has(BY_NAME[dtype].torch):
        with pytest.raises(rung.NotSupportedError, match="use a newer torch"):
            array.torch()
        return
    tensor = array.torch()
    assert (tensor.dtype == getattr(torch, BY_NAME[dtype].torch)
            and tensor.data_ptr() == array.data and same(tensor, array.numpy()))
    assert torch.from_dlpack(array).data_ptr() == array.data
    part = tensor[1:]
    del array, tensor
    assert not dies(owner)
    del part
    assert dies(owner)


def test_empty_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = owned(shape=(0, 4))[0].torch()
    assert tensor.shape == (0, 4) and tensor.dtype == torch.float32


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2, 3, dtype=torch.bfloat16)
    taken = Foreign(tensor)
    assert ((taken.data, taken.shape, taken.dtype.name,
             taken.device) == (tensor.data_ptr(), (2, 3), "bf16", (1, 0)))


# ---- memory of a store ----

def test_rows_outlive_their_store(staged, ids):
    store = rung.open(staged.path, host="50%")
    array = store.gather(Old(ids))
    view = array.numpy()
    ended = weakref.ref(store._memory)
    store.close()
    assert same(array.numpy(), staged.features[ids])
    del store, array
    gc.collect()
    assert same(view, staged.features[ids]) and ended() is not None
    del view
    gc.collect()
    assert ended() is None


def test_rows_of_torch_outlive_their_store(staged, ids):
    torch = pytest.importorskip("torch")
    store = rung.open(staged.path, host="50%")
    rows = [store.gather(torch.from_numpy(ids)), store.gather(Old(ids)).torch()]
    store.close()
    del store
    gc.collect()
    assert all(same(one, staged.features[ids]) for one in rows)


def test_a_dropped_store_closes(staged, tmp_path):
    store = rung.open(staged.path, share=tmp_path / "folder" / "socket")
    assert (tmp_path / "folder" / "socket").exists()
    del store
    assert not (tmp_path / "folder" / "socket").exists()


def test_a_store_stays_until_its_last_memory_is_released(staged, tmp_path, ids):
    socket = tmp_path / "folder" / "socket"
    store = rung.open(staged.path, share=socket)
    rows = [store.gather(Old(ids)) for _ in range(3)]
    store.close()
    assert socket.exists()
    while rows:
        assert socket.exists()
        rows.pop()
    assert not socket.exists()


def test_dropped_rows_do_not_leak(store, ids):
    import resource

    for _ in range(3):
        store.gather(Old(ids))
    gc.collect()
    before = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        array = store.gather(Old(ids))
        array.numpy()
        array.__dlpack__()
        Foreign(array)
        store.gather(ids)
    del array
    gc.collect()
    assert len(gc.get_objects()) < before[0] + 100
    assert len(store._memory.users) == 1
    most = before[1] + 300 * 64 * 1000 // 1024 // 2   # half the rows of one of the calls
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most
