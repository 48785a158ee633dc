// FasterTransformer's interface for Python: dicts of NumPy arrays are tensors, whose memory stays Python's. Types and
// options are made right in python/folio/faster_transformer.py.
#include "infer/interfaces/faster_transformer.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "src/module.h"

namespace folio::python {
namespace {

namespace ft = infer::faster_transformer;

// One caller at a time: threads that call at once wait for each other, without the interpreter's lock.
class Llama {
 public:
  Llama(const std::string& path, const std::string& tokenizer, const ft::LlamaOptions& options)
      : parts_(std::make_unique<Parts>(path, tokenizer, options)) {}
  ~Llama() {
    if (forked()) static_cast<void>(parts_.release());  // its threads are not there to end
  }
  Llama(const Llama&) = delete;
  Llama& operator=(const Llama&) = delete;

  template <typename F>
  auto with(F f) {
    core::require(
        !forked(),
        "this process was forked from the one that opened the model, and its threads stayed there; open the model "
        "in each process, or start processes by spawn");
    const WithoutGil away;
    const std::lock_guard lock(parts_->mutex);
    return f(parts_->llama, parts_->weights);
  }
  [[nodiscard]] const ft::LlamaWeight& weights() const { return parts_->weights; }

 private:
  struct Parts {
    Parts(const std::string& path, const std::string& tokenizer, const ft::LlamaOptions& options)
        : weights(model_file_of(path), tokenizer), llama(weights, options) {}
    ft::LlamaWeight weights;
    ft::Llama llama;
    std::mutex mutex;
  };
  [[nodiscard]] bool forked() const { return getpid() != process_; }

  std::unique_ptr<Parts> parts_;
  pid_t process_ = getpid();
};

ft::LlamaOptions options_of(const nb::dict& given) {
  const Json o = json_of(given);
  ft::LlamaOptions options{.is_free_buffer_after_forward = o.value("is_free_buffer_after_forward", false)};
  options.machines.n_threads = o.value("threads", size_t{0});
  if (o.contains("gpu")) options.machines.gpu = o["gpu"].get<int>();
  if (o.contains("cache_type")) options.cache_type = static_cast<infer::CacheType>(o["cache_type"].get<int>());
  if (o.contains("start_id")) options.start_id = o["start_id"].get<int32_t>();
  if (o.contains("end_id")) options.end_id = o["end_id"].get<int32_t>();
  return options;
}

using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;

ft::DataType type_of(const std::string& name, const Array& array) {
  const auto type = array.dtype();
  if (type == nb::dtype<bool>()) return ft::TYPE_BOOL;
  if (type == nb::dtype<int32_t>()) return ft::TYPE_INT32;
  if (type == nb::dtype<uint32_t>()) return ft::TYPE_UINT32;
  if (type == nb::dtype<uint64_t>()) return ft::TYPE_UINT64;
  if (type == nb::dtype<float>()) return ft::TYPE_FP32;
  core::fail("{} is of a type that no tensor has; it may be bool, int32, uint32, uint64 or float32", name);
}

ft::TensorMap tensors_of(const nb::dict& arrays) {
  ft::TensorMap tensors;
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    const auto array = nb::cast<Array>(value);
    ft::Tensor tensor{.type = type_of(name, array), .data = array.data()};
    for (size_t d = 0; d < array.ndim(); ++d) tensor.shape.push_back(array.shape(d));
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

// The dicts keep the arrays while it runs.
void forward(Llama& model, const nb::dict& outputs, const nb::dict& inputs) {
  ft::TensorMap out = tensors_of(outputs);
  const ft::TensorMap in = tensors_of(inputs);
  model.with([&](ft::Llama& llama, const ft::LlamaWeight& weights) { llama.forward(&out, &in, &weights); });
}

nb::dict statistics_of(Llama& model) {
  return dict_of(model.with([](ft::Llama& llama, const ft::LlamaWeight&) { return llama.statistics(); }));
}

}  // namespace

void bind_faster_transformer(nb::module_& m) {
  nb::class_<Llama>(m, "FasterTransformerLlama")
      .def("__init__",
           [](Llama* self, const std::string& path, const std::string& tokenizer, const nb::dict& options) {
             const ft::LlamaOptions o = options_of(options);
             const WithoutGil away;
             new (self) Llama(path, tokenizer, o);
           })
      .def("initialize", [](Llama& model) { model.with([](ft::Llama& l, const auto&) { l.initialize(); }); })
      .def("allocate_buffer",
           [](Llama& model, size_t batch_size, size_t beam_width, size_t max_seq_len, size_t max_input_len) {
             model.with([&](ft::Llama& l, const auto&) {
               l.allocateBuffer(batch_size, beam_width, max_seq_len, max_input_len);
             });
           })
      .def("free_buffer", [](Llama& model) { model.with([](ft::Llama& l, const auto&) { l.freeBuffer(); }); })
      .def("has_buffer",
           [](Llama& model) { return model.with([](ft::Llama& l, const auto&) { return l.has_buffer(); }); })
      .def("forward", &forward)
      .def("statistics", &statistics_of)
      .def_prop_ro("vocab_size", [](const Llama& model) { return model.weights().file().config.vocab_size; })
      .def_prop_ro("context_length", [](const Llama& model) { return model.weights().file().config.context_length; })
      .def_prop_ro("end_tokens", [](const Llama& model) {
        nb::list ids;
        for (const int32_t id : model.weights().end_tokens()) ids.append(id);
        return ids;
      });
}

}  // namespace folio::python
