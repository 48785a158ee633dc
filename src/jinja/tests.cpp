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
template <int kRemainder>
Value is_parity(Session& session, const Value& self, const Arguments&) {
  return {equal(session, operation(session, "%", self, {int64_t{2}}), {int64_t{kRemainder}})};
}
Value is_divisible(Session& session, const Value& self, const Arguments& arguments) {
  return {equal(session, operation(session, "%", self, *bind(arguments, {"num"}, 1)[0]), {int64_t{0}})};
}
template <bool kEqual>
Value is_equal(Session& session, const Value& self, const Arguments& arguments) {
  return {equal(session, self, *bind(arguments, {"other"}, 1)[0]) == kEqual};
}
template <bool kSwapped, bool kNegated>
Value is_less(Session& session, const Value& self, const Arguments& arguments) {
  const Value& other = *bind(arguments, {"other"}, 1)[0];
  return {(kSwapped ? less(session, other, self) : less(session, self, other)) != kNegated};
}
Value is_in(Session& session, const Value& self, const Arguments& arguments) {
  return {contains(session, *bind(arguments, {"seq"}, 1)[0], self)};
}
constexpr std::array kTests{Builtin{"!=", is_equal<false>},
                            Builtin{"<", is_less<false, false>},
                            Builtin{"<=", is_less<true, true>},
                            Builtin{"==", is_equal<true>},
                            Builtin{">", is_less<true, false>},
                            Builtin{">=", is_less<false, true>},
                            Builtin{"boolean", is_a<bool>},
                            Builtin{"callable", is_a<Function, Undefined>},
                            Builtin{"defined", is_defined},
                            Builtin{"divisibleby", is_divisible},
                            Builtin{"eq", is_equal<true>},
                            Builtin{"equalto", is_equal<true>},
                            Builtin{"even", is_parity<0>},
                            Builtin{"false", is_bool<false>},
                            Builtin{"float", is_a<double>},
                            Builtin{"ge", is_less<false, true>},
                            Builtin{"greaterthan", is_less<true, false>},
                            Builtin{"gt", is_less<true, false>},
                            Builtin{"in", is_in},
                            Builtin{"integer", is_a<int64_t>},
                            Builtin{"iterable", is_sequence},
                            Builtin{"le", is_less<true, true>},
                            Builtin{"lessthan", is_less<false, false>},
                            Builtin{"lt", is_less<false, false>},
                            Builtin{"mapping", is_a<Shared<Dict>>},
                            Builtin{"ne", is_equal<false>},
                            Builtin{"none", is_a<None>},
                            Builtin{"number", is_a<bool, int64_t, double>},
                            Builtin{"odd", is_parity<1>},
                            Builtin{"sequence", is_sequence},
                            Builtin{"string", is_a<Shared<Text>>},
                            Builtin{"true", is_bool<true>},
                            Builtin{"undefined", is_a<Undefined>}};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace folio::data::jinja
