// An accelerator of host memory, for a wheel without a GPU: tensors of the device `privateuseone`, whose addresses are no addresses of this process (whoever
// reads them is ended by a signal, as with a GPU's) and whose kernels are the CPU's, on copies. Loaded by tests/programs/accelerator.py.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>
#include <ATen/ATen.h>

#include <fcntl.h>
#include <unistd.h>

namespace {
const uintptr_t far_away = uintptr_t(1) << 62; // a device address is the host's with this bit: nothing is mapped there

void *of_device(void *host) { return host ? reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(host) | far_away) : nullptr; }
void *of_host(const void *device) { return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(device) & ~far_away); }

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        void *data = of_device(bytes ? c10::alloc_cpu(bytes) : nullptr);
        return {data, data, &give_back, c10::Device(c10::DeviceType::PrivateUse1, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void *to, const void *from, size_t bytes) const override { memcpy(of_host(to), of_host(from), bytes); }
    static void give_back(void *data) {
        if (data)
            c10::free_cpu(of_host(data));
    }
};
Memory memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory)

// As a GPU's driver does while it counts.
c10::DeviceIndex count_devices() {
    close(open("/dev/null", O_RDWR));
    return 1;
}

// One device whose work is done when a call returns.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
    c10::DeviceIndex deviceCount() const noexcept override {
        static const c10::DeviceIndex count = count_devices(); // as c10::cuda::device_count() keeps it: not to be entered again meanwhile
        return count;
    }
    c10::Device getDevice() const override { return {c10::DeviceType::PrivateUse1, 0}; }
    c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
    c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, getDevice()); }
    c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
    void record(void **, const c10::Stream &, const c10::DeviceIndex, const c10::EventFlag) const override {}
    void block(void *, const c10::Stream &) const override {}
    bool queryEvent(void *) const override { return true; }

    void synchronizeEvent(void *) const override {}
    void synchronizeDevice(const c10::DeviceIndex) const override {}


};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    const at::Generator &getDefaultGenerator(c10::DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
        c10::DataPtr data = memory.allocate(bytes);
        if (storage.data())
            memcpy(of_host(data.get()), of_host(storage.data()), std::min(bytes, storage.nbytes()));
        storage.set_data_ptr_noswap(std::move(data));
        storage.set_nbytes(bytes);
    }
};
Hooks hooks;

const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

// The same memory as a tensor of the CPU.
at::Tensor seen(const at::Tensor &tensor) {
    if (!tensor.device().is_privateuseone())
        return tensor;
    at::AutoDispatchBelowADInplaceOrView guard;
    auto host = at::from_blob(of_host(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()));
    host = tensor.is_conj() ? at::_conj(host) : host;
    return tensor.is_neg() ? at::_neg_view(host) : host;
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &to, bool) {
    at::AutoDispatchBelowADInplaceOrView guard;
    seen(to).copy_(seen(self));
    return to;
}

const at::Tensor &resize_to(const at::Tensor &self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
    auto *tensor = self.unsafeGetTensorImpl();
    tensor->set_sizes_contiguous(size);
    size_t bytes = static_cast<size_t>(tensor->numel()) * tensor->itemsize() + static_cast<size_t>(tensor->storage_offset()) * tensor->itemsize();
    if (bytes > self.storage().nbytes())
        hooks.resizePrivateUse1Bytes(self.storage(), bytes);
    return self;
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &to) {
    if (self.sizes() != to.sizes())
        resize_to(to, self.sizes(), std::nullopt);
    return copy_from(self, to, false);
}

at::Scalar number(const at::Tensor &self) { return seen(self).item(); }

at::Tensor &set_storage(at::Tensor &self, at::Storage storage, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
    auto *tensor = self.unsafeGetTensorImpl();
    tensor->set_storage_keep_dtype(std::move(storage));
    tensor->set_sizes_and_strides(size, stride, offset);
    return self;
}

at::Tensor convolution(const at::Tensor &input, const at::Tensor &weight, const std::optional<at::Tensor> &bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups) {
    auto host_bias = bias && bias->defined() ? std::optional<at::Tensor>(seen(*bias)) : std::nullopt;
    return at::convolution(seen(input), seen(weight), host_bias, stride, padding, dilation, transposed, output_padding, groups).to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor &gradient, const at::Tensor &input, const at::Tensor &weight,
                                                                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                    bool transposed, at::IntArrayRef output_padding, int64_t groups,
                                                                    std::array<bool, 3> mask) {
    auto channels = at::IntArrayRef(gradient.sizes()[1]);
    auto results = at::convolution_backward(seen(gradient), seen(input), seen(weight), channels, stride, padding, dilation, transposed, output_padding,
                                            groups, mask);
    auto back = [&](const at::Tensor &tensor) { return tensor.defined() ? tensor.to(input.device()) : tensor; };
    return {back(std::get<0>(results)), back(std::get<1>(results)), back(std::get<2>(results))};
}

// What `host`, a view of the device tensor's memory seen from the CPU, is a view of.
at::Tensor view_of(const at::Tensor &device, const at::Tensor &host) {
    auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(device.storage()), device.key_set(), host.dtype());
    auto offset = device.storage_offset() * static_cast<int64_t>(device.itemsize() / host.itemsize());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), offset + host.storage_offset());
    return view;
}

// Every other operator: the CPU's on the same memory, so that what it writes is written and what it views is viewed; new results are moved.
struct Call {
    std::vector<std::pair<at::Tensor, at::Tensor>> tensors; // the device's, the CPU's

    c10::IValue to_host(const c10::IValue &value) {
        if (value.isTensor())
            return to_host(value.toTensor());
        if (value.isTensorList()) {
            c10::List<at::Tensor> list;
            for (const at::Tensor &tensor : value.toTensorVector())
                list.push_back(to_host(tensor));
            return list;
        }
        if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> list;
            for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
                list.push_back(tensor ? std::optional<at::Tensor>(to_host(*tensor)) : tensor);
            return list;
        }
        if (value.isDevice() && value.toDevice().is_privateuseone())
            return c10::Device(c10::kCPU);
        return value;
    }

    at::Tensor to_host(const at::Tensor &tensor) {
        if (!tensor.defined() || !tensor.device().is_privateuseone())
            return tensor;
        tensors.emplace_back(tensor, seen(tensor));
        return tensors.back().second;
    }

    c10::IValue to_device(const c10::IValue &value) const {
        if (value.isTensor())
            return to_device(value.toTensor());
        if (!value.isTensorList())
            return value;
        c10::List<at::Tensor> list;
        for (const at::Tensor &tensor : value.toTensorVector())
            list.push_back(to_device(tensor));
        return list;
    }

    at::Tensor to_device(const at::Tensor &result) const {
        if (!result.defined())
            return result;
        for (const auto &[device, host] : tensors) {
            if (host.is_same(result))
                return device;
            if (host.storage().data() && host.storage().data() == result.storage().data())
                return view_of(device, result);
        }
        return result.to(c10::Device(c10::DeviceType::PrivateUse1, 0));
    }
};

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
    if (op.schema().overload_name().find("out") != std::string::npos) // may be given another size
        return at::native::cpu_fallback(op, stack);
    Call call;
    size_t count = op.schema().arguments().size();
    for (auto value = stack->end() - static_cast<long>(count); value != stack->end(); value++)
        *value = call.to_host(*value);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    for (auto value = stack->end() - static_cast<long>(op.schema().returns().size()); value != stack->end(); value++)
        *value = call.to_device(*value);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("_copy_from", &copy_from);
    library.impl("_copy_from_and_resize", &copy_from_and_resize);
    library.impl("resize_", &resize_to);
    library.impl("as_strided", &at::cpu::as_strided);
    library.impl("view", &at::native::view);
    library.impl("_local_scalar_dense", &number);
    library.impl("set_.source_Storage_storage_offset", &set_storage);
    library.impl("convolution_overrideable", &convolution);
    library.impl("convolution_backward_overrideable", &convolution_backward);
}

TORCH_LIBRARY_IMPL(aten, Conjugate, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

__attribute__((constructor)) void begin() { at::RegisterPrivateUse1HooksInterface(&hooks); }
} // namespace
