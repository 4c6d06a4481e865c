#include "tools/gpu_calibrate/gpu.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <map>

#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"
#include "tools/gpu_calibrate/kernels.h"

namespace understudy {
namespace {

/// Name as cuda.h spells it, which is that of the version of a function that it declares.
#define UNDERSTUDY_TEXT(name) #name
#define UNDERSTUDY_SYMBOL(name) UNDERSTUDY_TEXT(name)

/// The functions of libcuda.so.1 that are used.
struct Driver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetName) device_name = nullptr;
  decltype(&cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) retain_context = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release_context = nullptr;
  decltype(&cuCtxSetCurrent) set_context = nullptr;
  decltype(&cuModuleLoadData) load_module = nullptr;
  decltype(&cuModuleGetFunction) get_function = nullptr;
  decltype(&cuMemAlloc) allocate = nullptr;
  decltype(&cuMemFree) free = nullptr;
  decltype(&cuMemsetD32) set_words = nullptr;
  decltype(&cuEventCreate) event_create = nullptr;
  decltype(&cuEventRecord) event_record = nullptr;
  decltype(&cuEventSynchronize) event_synchronize = nullptr;
  decltype(&cuEventElapsedTime) event_elapsed = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;

  static Result<Driver> load() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return fail(std::string("there is no CUDA driver: ") + dlerror());
    Driver d;
    std::string missing;
    const auto find = [&](auto& function, const char* name) {
      void* const found = dlsym(library, name);
      if (found == nullptr) missing += std::string(" ") + name;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(d.init, UNDERSTUDY_SYMBOL(cuInit));
    find(d.error_string, UNDERSTUDY_SYMBOL(cuGetErrorString));
    find(d.device_get, UNDERSTUDY_SYMBOL(cuDeviceGet));
    find(d.device_name, UNDERSTUDY_SYMBOL(cuDeviceGetName));
    find(d.device_attribute, UNDERSTUDY_SYMBOL(cuDeviceGetAttribute));
    find(d.retain_context, UNDERSTUDY_SYMBOL(cuDevicePrimaryCtxRetain));
    find(d.release_context, UNDERSTUDY_SYMBOL(cuDevicePrimaryCtxRelease));
    find(d.set_context, UNDERSTUDY_SYMBOL(cuCtxSetCurrent));
    find(d.load_module, UNDERSTUDY_SYMBOL(cuModuleLoadData));
    find(d.get_function, UNDERSTUDY_SYMBOL(cuModuleGetFunction));
    find(d.allocate, UNDERSTUDY_SYMBOL(cuMemAlloc));
    find(d.free, UNDERSTUDY_SYMBOL(cuMemFree));
    find(d.set_words, UNDERSTUDY_SYMBOL(cuMemsetD32));
    find(d.event_create, UNDERSTUDY_SYMBOL(cuEventCreate));
    find(d.event_record, UNDERSTUDY_SYMBOL(cuEventRecord));
    find(d.event_synchronize, UNDERSTUDY_SYMBOL(cuEventSynchronize));
    find(d.event_elapsed, UNDERSTUDY_SYMBOL(cuEventElapsedTime));
    find(d.launch, UNDERSTUDY_SYMBOL(cuLaunchKernel));
    if (!missing.empty()) return fail("the CUDA driver lacks" + missing);
    return d;
  }
};

class DriverGpu final : public Gpu {
 public:
  DriverGpu(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
  ~DriverGpu() override {
    for (const CUdeviceptr memory : memory_) driver_.free(memory);
    if (context_ != nullptr) driver_.release_context(device_);
  }

  Result<void> start() {
    char name[256] = {};
    int major = 0, minor = 0;
    const auto attribute = [&](int& value, CUdevice_attribute which) {
      return driver_.device_attribute(&value, which, device_);
    };
    TRY(all({driver_.device_name(name, sizeof name, device_),
             attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
             attribute(multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)}));
    text_ = format_text("%s, compute capability %d.%d, %d multiprocessors", name, major, minor,
                        multiprocessors_);
    const auto binary = TRY(compile_kernels(10 * major + minor));
    TRY(check("a context", driver_.retain_context(&context_, device_)));
    TRY(check("the context", driver_.set_context(context_)));
    TRY(check("the kernels", driver_.load_module(&module_, binary.data())));
    return all({driver_.event_create(&begin_, CU_EVENT_DEFAULT),
                driver_.event_create(&end_, CU_EVENT_DEFAULT)});
  }

  std::string text() const override { return text_; }
  int multiprocessors() const override { return multiprocessors_; }

  Result<CUdeviceptr> allocate(uint64_t bytes) override {
    CUdeviceptr memory = 0;
    TRY(check("memory", driver_.allocate(&memory, bytes)));
    memory_.push_back(memory);
    TRY(check("memory", driver_.set_words(memory, kGpuWord, bytes / 4)));
    return memory;
  }

  Result<double> time(const char* kernel, uint32_t blocks, uint32_t threads,
                      const KernelArguments& arguments, uint32_t times) override {
    CUfunction& function = functions_[kernel];
    if (function == nullptr) {
      TRY(check(kernel, driver_.get_function(&function, module_, kernel)));
    }
    KernelArguments copy = arguments;
    void* parameters[] = {&copy};
    CUresult error = driver_.event_record(begin_, nullptr);
    for (uint32_t i = 0; i < times && error == CUDA_SUCCESS; ++i) {
      error =
          driver_.launch(function, blocks, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr);
    }
    float ms = 0;
    if (error == CUDA_SUCCESS) error = driver_.event_record(end_, nullptr);
    if (error == CUDA_SUCCESS) error = driver_.event_synchronize(end_);
    if (error == CUDA_SUCCESS) error = driver_.event_elapsed(&ms, begin_, end_);
    TRY(check(kernel, error));
    return 1000.0 * static_cast<double>(ms);
  }

 private:
  Result<void> check(const char* what, CUresult error) const {
    if (error == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    driver_.error_string(error, &text);
    return fail(std::string(what) + ": " + (text == nullptr ? "unknown CUDA error" : text));
  }
  Result<void> all(std::initializer_list<CUresult> errors) const {
    for (const CUresult error : errors) {
      TRY(check("the GPU", error));
    }
    return {};
  }

  const Driver driver_;
  const CUdevice device_;
  std::string text_;
  int multiprocessors_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;  // the context's end is theirs, as the module's
  std::map<std::string, CUfunction> functions_;
  std::vector<CUdeviceptr> memory_;
};

}  // namespace

Result<std::vector<char>> compile_kernels(int capability) {
  nvrtcProgram program = nullptr;
  nvrtcResult error = nvrtcCreateProgram(&program, kGpuKernels, "kernels.cu", 0, nullptr, nullptr);
  if (error != NVRTC_SUCCESS) return fail(std::string("NVRTC: ") + nvrtcGetErrorString(error));
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(capability);
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  error = nvrtcCompileProgram(program, 2, options);
  std::vector<char> binary;
  size_t size = 0;
  if (error == NVRTC_SUCCESS) {
    error = nvrtcGetCUBINSize(program, &size);
    binary.resize(size);
    if (error == NVRTC_SUCCESS) error = nvrtcGetCUBIN(program, binary.data());
  }
  std::string log;
  if (error != NVRTC_SUCCESS && nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS) {
    log.resize(size);
    nvrtcGetProgramLog(program, log.data());
  }
  nvrtcDestroyProgram(&program);
  if (error == NVRTC_SUCCESS) return binary;
  return fail(format_text("NVRTC cannot compile for compute capability %d.%d: %s\n",
                          capability / 10, capability % 10, nvrtcGetErrorString(error)) +
              log.c_str());
}

Result<std::unique_ptr<Gpu>> Gpu::open(int device) {
  const auto driver = TRY(Driver::load());
  const auto why = [&](CUresult error) {
    const char* text = nullptr;
    driver.error_string(error, &text);
    return std::string(text == nullptr ? "unknown CUDA error" : text);
  };
  if (const CUresult error = driver.init(0); error != CUDA_SUCCESS) {
    return fail("the CUDA driver does not start: " + why(error));
  }
  CUdevice handle = 0;
  if (const CUresult error = driver.device_get(&handle, device); error != CUDA_SUCCESS) {
    return fail("CUDA device " + std::to_string(device) + ": " + why(error));
  }
  auto gpu = std::make_unique<DriverGpu>(driver, handle);
  TRY(gpu->start());
  return gpu;
}

}  // namespace understudy
