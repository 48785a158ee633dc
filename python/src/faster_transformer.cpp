// FasterTransformer's interface for Python. Tensors are passed as dicts of NumPy arrays, whose memory Python owns.
// python/folio/faster_transformer.py converts types and options.
#include "infer/interfaces/faster_transformer.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <utility>

#include "core/error.h"
#include "src/module.h"

namespace folio::python {
namespace {

namespace ft = infer::faster_transformer;

// The weights and the model that a Python object owns. Callers lock the mutex, so that only one call runs at a time,
// and release the GIL.
struct Parts {
  Parts(const std::string& path, const std::string& tokenizer, const ft::LlamaOptions& options)
      : weights(model_file_of(path), tokenizer), llama(weights, options) {}
  ft::LlamaWeight weights;
  ft::Llama llama;
  std::mutex mutex;
};

}  // namespace

template <>
inline constexpr bool kJoinsThreads<Parts> = true;

namespace {

using Llama = Owned<Parts>;

template <typename Work>
auto with(const Llama& llama, Work work) {
  Parts& parts = *llama;
  const WithoutGil released;
  const std::lock_guard lock(parts.mutex);
  return work(parts.llama, parts.weights);
}

ft::LlamaOptions options_of(const std::string& given) {
  const Json o = Json::parse(given);
  ft::LlamaOptions options{.is_free_buffer_after_forward = o.value("is_free_buffer_after_forward", false)};
  options.machines.n_threads = o.value("threads", size_t{0});
  if (o.contains("gpu")) options.machines.gpu = o["gpu"].get<int>();
  if (o.contains("cache_type")) options.cache_type = static_cast<infer::CacheType>(o["cache_type"].get<int>());
  if (o.contains("start_id")) options.start_id = o["start_id"].get<int32_t>();
  if (o.contains("end_id")) options.end_id = o["end_id"].get<int32_t>();
  return options;
}

using Read = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Written = nb::ndarray<nb::c_contig, nb::device::cpu>;

template <typename Array>
ft::DataType type_of(const std::string& name, const Array& array) {
  const auto type = array.dtype();
  if (type == nb::dtype<bool>()) return ft::TYPE_BOOL;
  if (type == nb::dtype<int32_t>()) return ft::TYPE_INT32;
  if (type == nb::dtype<uint32_t>()) return ft::TYPE_UINT32;
  if (type == nb::dtype<uint64_t>()) return ft::TYPE_UINT64;
  if (type == nb::dtype<float>()) return ft::TYPE_FP32;
  core::fail("{} has an unsupported type, expected bool, int32, uint32, uint64 or float32", name);
}

// The tensors of a Python dict, with references that keep their arrays alive even if another thread changes the dict.
template <typename Array>
struct Tensors {
  ft::TensorMap map{};
  std::vector<Array> arrays{};
};

template <typename Array>
Tensors<Array> tensors_of(const nb::dict& arrays) {
  Tensors<Array> tensors;
  for (const auto& [key, value] : arrays) {
    const std::string name = utf8_of(key, "the name of a tensor");
    Array array;  // not a copy, so that outputs are written to Python's memory
    core::require(nb::try_cast(value, array, false), "{} must be a C-contiguous array, and writable if it is an output",
                  name);
    ft::Tensor tensor{.type = type_of(name, array), .data = const_cast<void*>(array.data())};
    for (size_t d = 0; d < array.ndim(); ++d) tensor.shape.push_back(array.shape(d));
    tensors.map.emplace(name, std::move(tensor));
    tensors.arrays.push_back(std::move(array));
  }
  return tensors;
}

void forward(const Llama& model, const nb::dict& outputs, const nb::dict& inputs) {
  auto out = tensors_of<Written>(outputs);
  const auto in = tensors_of<Read>(inputs);
  with(model, [&](ft::Llama& llama, const ft::LlamaWeight& weights) { llama.forward(&out.map, &in.map, &weights); });
}

nb::dict statistics_of(const Llama& model) {
  const auto now = with(model, [](ft::Llama& llama, const ft::LlamaWeight&) { return llama.statistics(); });
  return dict_of(now);
}

}  // namespace

void bind_faster_transformer(nb::module_& m) {
  nb::class_<Llama>(m, "FasterTransformerLlama")
      .def("__init__",
           [](Llama* self, nb::handle given_path, nb::handle given_tokenizer, const std::string& options) {
             const std::string path = utf8_of(given_path, "path");
             const std::string tokenizer = utf8_of(given_tokenizer, "tokenizer");
             const ft::LlamaOptions o = options_of(options);
             auto parts = [&] {
               const WithoutGil released;
               return std::make_unique<Parts>(path, tokenizer, o);
             }();
             new (self) Llama(std::move(parts));
           })
      .def("initialize", [](const Llama& model) { with(model, [](ft::Llama& l, const auto&) { l.initialize(); }); })
      .def("allocate_buffer",
           [](const Llama& model, size_t batch_size, size_t beam_width, size_t max_seq_len, size_t max_input_len) {
             with(model, [&](ft::Llama& l, const auto&) {
               l.allocateBuffer(batch_size, beam_width, max_seq_len, max_input_len);
             });
           })
      .def("free_buffer", [](const Llama& model) { with(model, [](ft::Llama& l, const auto&) { l.freeBuffer(); }); })
      .def("has_buffer",
           [](const Llama& model) { return with(model, [](ft::Llama& l, const auto&) { return l.has_buffer(); }); })
      .def("forward", &forward)
      .def("statistics", &statistics_of)
      .def_prop_ro("vocab_size", [](const Llama& model) { return model->weights.file().config.vocab_size; })
      .def_prop_ro("context_length", [](const Llama& model) { return model->weights.file().config.context_length; })
      .def_prop_ro("end_tokens", [](const Llama& model) { return model->weights.end_tokens(); });
}

}  // namespace folio::python
