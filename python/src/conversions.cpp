#include "src/conversions.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <variant>

#include "core/error.h"

namespace folio::python {
namespace {

constexpr size_t kMaxDepth = 64;  // maximum nesting, as in core::parse_json
constexpr size_t kMaxValues = size_t{1} << 24U;

std::string python_type(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

std::string lone_surrogate(nb::handle text) {
  const Py_ssize_t length = PyUnicode_GetLength(text.ptr());
  for (Py_ssize_t i = 0; i < length; ++i) {
    const Py_UCS4 c = PyUnicode_ReadChar(text.ptr(), i);
    if (c < 0xd800 || c > 0xdfff) continue;
    return fmt::format("has a lone surrogate (U+{:X}) at character {}, which UTF-8 cannot encode; replace or remove it",
                       c, i);
  }
  return "cannot be encoded as UTF-8";
}

// Converts one Python object to JSON. The conversion may run Python code (__index__, tolist, items) that modifies the
// object, so lists and dicts are copied before their elements are read.
class JsonReader {
 public:
  explicit JsonReader(std::string_view name) : name_(name) {}

  Json read(nb::handle object) {
    PyObject* o = object.ptr();
    if (n_values_++ == kMaxValues) fail_size();
    if (object.is_none()) return nullptr;
    if (PyBool_Check(o)) return o == Py_True;
    if (PyUnicode_Check(o)) return string(object);
    if (PyDict_Check(o)) return pairs(nb::steal(PyDict_Items(o)));
    if (PyList_Check(o)) return elements(nb::steal(PyList_AsTuple(o)));
    if (PyTuple_Check(o)) return elements(nb::borrow(object));
    if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
    if (PyLong_Check(o)) return integer(object);
    if (PyBytes_Check(o) || PyByteArray_Check(o)) fail_type(object);
    if (nb::hasattr(object, "tolist")) return array(object);
    if (PyIndex_Check(o) != 0) {
      const nb::object number = nb::steal(PyNumber_Index(o));
      if (!number.is_valid()) throw nb::python_error();
      return integer(number);
    }
    if (PyMapping_Check(o) != 0 && nb::hasattr(object, "items")) return pairs(object.attr("items")());
    if (PySequence_Check(o) != 0) return elements(nb::borrow(object));
    fail_type(object);
  }

 private:
  using Step = std::variant<size_t, std::string>;

  Json string(nb::handle text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (data != nullptr) return std::string(data, static_cast<size_t>(size));
    PyErr_Clear();
    fail_value(lone_surrogate(text));
  }

  // Clamps integers to 64 bits; clamped values are out of range for every option.
  static Json integer(nb::handle number) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow < 0) return INT64_MIN;
    if (overflow == 0) return value;
    const uint64_t large = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() == nullptr) return large;
    PyErr_Clear();
    return UINT64_MAX;
  }

  // Converts a NumPy array or scalar by calling its tolist().
  Json array(nb::handle object) {
    const nb::object size = nb::getattr(object, "size", nb::none());
    if (PyLong_Check(size.ptr()) && integer(size) > Json(kMaxValues)) fail_size();
    const nb::object list = object.attr("tolist")();
    if (nb::hasattr(list, "tolist")) fail_type(object);
    return read(list);
  }

  Json elements(const nb::object& sequence) {
    if (!sequence.is_valid()) throw nb::python_error();
    const Py_ssize_t size = PyObject_Size(sequence.ptr());
    if (size < 0) PyErr_Clear();
    if (size < 0 || static_cast<size_t>(size) > kMaxValues - n_values_) fail_size();
    enter(size_t{0});
    Json json = Json::array();
    if (PyTuple_CheckExact(sequence.ptr())) {
      json.get_ref<Json::array_t&>().reserve(static_cast<size_t>(size));
      for (Py_ssize_t i = 0; i < size; ++i) {
        path_.back() = static_cast<size_t>(i);
        json.push_back(read(PyTuple_GET_ITEM(sequence.ptr(), i)));
      }
    } else {
      size_t i = 0;
      for (const nb::handle one : sequence) {
        if (i == static_cast<size_t>(size)) fail_value("has more elements than its length");
        path_.back() = i++;
        json.push_back(read(one));
      }
    }
    path_.pop_back();
    return json;
  }

  Json pairs(const nb::object& items) {
    if (!items.is_valid()) throw nb::python_error();
    enter(std::string());
    Json json = Json::object();
    for (const nb::handle item : items) {
      if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 2) fail_type(item);
      const nb::object own = nb::borrow(item);
      std::string name = key(PyTuple_GET_ITEM(own.ptr(), 0));
      path_.back() = name;
      json[std::move(name)] = read(PyTuple_GET_ITEM(own.ptr(), 1));
    }
    path_.pop_back();
    return json;
  }

  std::string key(nb::handle key) {
    const bool is_plain = PyUnicode_Check(key.ptr()) || PyFloat_Check(key.ptr()) || key.is_none() ||
                          PyIndex_Check(key.ptr()) != 0;  // the types that json.dumps accepts as keys
    path_.back() = std::string("a key");
    if (!is_plain) fail_type(key);
    return string(PyUnicode_Check(key.ptr()) ? nb::borrow(key) : nb::object(nb::str(key))).get<std::string>();
  }

  void enter(Step step) {
    if (path_.size() == kMaxDepth) {
      path_.resize(name_.empty() ? 1 : 0);  // the error names only the root: 64 levels would not help
      fail_value(fmt::format("is nested deeper than {} levels, or contains itself", kMaxDepth));
    }
    path_.push_back(std::move(step));
  }

  // Returns the location of the current value for errors, such as "'stop' at [1]".
  [[nodiscard]] std::string place() const {
    auto step = path_.begin();
    std::string root(name_);
    if (root.empty() && step != path_.end() && std::holds_alternative<std::string>(*step)) {
      root = std::get<std::string>(*step++);
    }
    std::string inner;
    for (; step != path_.end(); ++step) {
      const auto* key = std::get_if<std::string>(&*step);
      inner += key == nullptr ? fmt::format("[{}]", std::get<size_t>(*step))
                              : fmt::format("{}{}", inner.empty() ? "" : ".", core::printable(*key));
    }
    return fmt::format("'{}'{}{}", root.empty() ? "value" : core::printable(root), inner.empty() ? "" : " at ", inner);
  }
  [[noreturn]] void fail_value(const std::string& why) const {
    throw nb::value_error(fmt::format("{} {}", place(), why).c_str());
  }
  [[noreturn]] void fail_type(nb::handle object) const {
    throw nb::type_error(
        fmt::format("{} must consist of JSON types (numbers, strings, booleans, None, dicts and lists), not {}",
                    place(), python_type(object))
            .c_str());
  }
  [[noreturn]] void fail_size() const { fail_value(fmt::format("has more than {} values", kMaxValues)); }

  std::string_view name_;
  std::vector<Step> path_;  ///< path to the current value
  size_t n_values_ = 0;
};

}  // namespace

nb::object array_of(std::vector<float> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<float>(std::move(values));
  const nb::capsule owner(owned, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, float>(owned->data(), shape.size(), shape.data(), owner));
}

Json json_of(nb::handle object, std::string_view name) { return JsonReader(name).read(object); }

nb::object object_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return nb::int_(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return nb::int_(json.get<uint64_t>());
    case Json::value_t::number_float:
      return nb::float_(json.get<double>());
    case Json::value_t::string:
      return text_of(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      nb::list list;
      for (const Json& one : json) list.append(object_of(one));
      return list;
    }
    case Json::value_t::object: {
      nb::dict dict;
      for (const auto& [key, value] : json.items()) dict[text_of(key)] = object_of(value);
      return dict;
    }
    default:
      return nb::none();
  }
}

nb::dict dict_of(const infer::EngineStatistics& s) {
  nb::dict all;
  all["steps"] = s.steps;
  all["rows"] = s.rows;
  all["tokens"] = s.tokens;
  all["cached_tokens"] = s.cached_tokens;
  all["preemptions"] = s.preemptions;
  all["running"] = s.running;
  all["waiting"] = s.waiting;
  all["blocks_in_use"] = s.blocks_in_use;
  all["blocks"] = s.n_blocks;
  all["step_seconds"] = s.step_seconds;
  all["plan_seconds"] = s.plan_seconds;
  return all;
}

nb::str text_of(std::string_view text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::string utf8_of(nb::handle text, std::string_view name) {
  if (!PyUnicode_Check(text.ptr())) {
    throw nb::type_error(fmt::format("{} must be a string, not {}", name, python_type(text)).c_str());
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data != nullptr) return {data, static_cast<size_t>(size)};
  PyErr_Clear();
  throw nb::value_error(fmt::format("{} {}", name, lone_surrogate(text)).c_str());
}

}  // namespace folio::python
