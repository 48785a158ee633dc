// What stands behind "is".
#include <array>

#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

template <typename... Ts>
Value is_a(Session&, const Value& self, const Arguments&) {
  return {(self.is<Ts>() || ...)};
}
template <typename T>
using Shared = std::shared_ptr<const T>;

Value is_defined(Session&, const Value& self, const Arguments&) { return {!self.is_undefined()}; }
Value is_sequence(Session&, const Value& self, const Arguments&) {
  return {self.is_undefined() || self.text() != nullptr || self.list() != nullptr || self.dict() != nullptr};
}
template <bool kWanted>
Value is_bool(Session&, const Value& self, const Arguments&) {
  const bool* b = std::get_if<bool>(&self.data);
  return {b != nullptr && *b == kWanted};
}
Value is_equal(Session& session, const Value& self, const Arguments& arguments) {
  return {equal(session, self, *bind(arguments, {"other"}, 1)[0])};
}

constexpr std::array kTests{
    Builtin{"boolean", is_a<bool>},   Builtin{"defined", is_defined},       Builtin{"equalto", is_equal},
    Builtin{"false", is_bool<false>}, Builtin{"iterable", is_sequence},     Builtin{"mapping", is_a<Shared<Dict>>},
    Builtin{"none", is_a<None>},      Builtin{"sequence", is_sequence},     Builtin{"string", is_a<Shared<Text>>},
    Builtin{"true", is_bool<true>},   Builtin{"undefined", is_a<Undefined>}};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace folio::data::jinja
