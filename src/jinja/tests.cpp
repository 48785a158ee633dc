// Jinja's tests: functions whose names follow "is".
#include <array>

#include "jinja/builtins.h"

namespace folio::data::jinja {
namespace {

// A test without arguments, which returns kIs(self).
template <auto kIs>
Value plain(Session&, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return {kIs(self)};
}
template <auto kHolds>
Value compared(Session& session, const Value& self, const Arguments& arguments) {
  return {kHolds(session, self, *bind(arguments, {"other"}, 1)[0])};
}

template <typename... Ts>
bool is_a(const Value& self) {
  return (self.is<Ts>() || ...);
}
template <typename T>
using Shared = std::shared_ptr<const T>;

bool is_defined(const Value& self) { return !self.is_undefined(); }
bool is_sequence(const Value& self) {
  return self.is_undefined() || self.text() != nullptr || self.list() != nullptr || self.dict() != nullptr;
}
bool is_iterable(const Value& self) { return is_sequence(self) || self.is<Loop*>(); }
template <bool kWanted>
bool is_bool(const Value& self) {
  const bool* b = std::get_if<bool>(&self.data);
  return b != nullptr && *b == kWanted;
}
bool is_number(const Value& self) { return number(self).has_value(); }
bool is_callable(const Value& self) { return is_a<Function, Loop*, Undefined>(self); }
bool never(const Value&) { return false; }

template <bool (*kHasCase)(TextView)>
Value in_case(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return {kHasCase(as_text(session, self))};
}

bool divides(Session& session, const Value& self, const Value& by) {
  const Value zero{int64_t{0}};
  return equal(session, operation(session, "%", self, by), zero);
}
template <int64_t kRest>
Value has_rest(Session& session, const Value& self, const Arguments& arguments) {
  static_cast<void>(bind(arguments, {}));
  return {equal(session, operation(session, "%", self, {int64_t{2}}), {kRest})};
}

bool differs(Session& session, const Value& a, const Value& b) { return !equal(session, a, b); }
bool greater(Session& session, const Value& a, const Value& b) { return less(session, b, a); }
bool at_most(Session& session, const Value& a, const Value& b) { return less(session, a, b) || equal(session, a, b); }
bool at_least(Session& session, const Value& a, const Value& b) { return less(session, b, a) || equal(session, a, b); }
bool within_container(Session& session, const Value& a, const Value& b) { return contains(session, b, a); }
// Implements sameas. Unlike Python's `is`, equal scalars and strings are always identical.
bool is_same(Session& session, const Value& a, const Value& b) {
  if (a.data.index() != b.data.index()) return false;
  if (a.list() != nullptr) return a.list() == b.list();
  if (a.dict() != nullptr) return a.dict() == b.dict();
  return equal(session, a, b);
}

bool names_filter(const Value& self) { return self.text() != nullptr && find_filter(to_utf8(*self.text())) != nullptr; }
bool names_test(const Value& self) { return self.text() != nullptr && find_test(to_utf8(*self.text())) != nullptr; }

constexpr std::array kTests{Builtin{"!=", compared<differs>},
                            Builtin{"<", compared<less>},
                            Builtin{"<=", compared<at_most>},
                            Builtin{"==", compared<equal>},
                            Builtin{">", compared<greater>},
                            Builtin{">=", compared<at_least>},
                            Builtin{"boolean", plain<is_a<bool>>},
                            Builtin{"callable", plain<is_callable>},
                            Builtin{"defined", plain<is_defined>},
                            Builtin{"divisibleby", compared<divides>},
                            Builtin{"eq", compared<equal>},
                            Builtin{"equalto", compared<equal>},
                            Builtin{"escaped", plain<never>},
                            Builtin{"even", has_rest<0>},
                            Builtin{"false", plain<is_bool<false>>},
                            Builtin{"filter", plain<names_filter>},
                            Builtin{"float", plain<is_a<double>>},
                            Builtin{"ge", compared<at_least>},
                            Builtin{"greaterthan", compared<greater>},
                            Builtin{"gt", compared<greater>},
                            Builtin{"in", compared<within_container>},
                            Builtin{"integer", plain<is_a<int64_t>>},
                            Builtin{"iterable", plain<is_iterable>},
                            Builtin{"le", compared<at_most>},
                            Builtin{"lessthan", compared<less>},
                            Builtin{"lower", in_case<is_lower>},
                            Builtin{"lt", compared<less>},
                            Builtin{"mapping", plain<is_a<Shared<Dict>>>},
                            Builtin{"ne", compared<differs>},
                            Builtin{"none", plain<is_a<None>>},
                            Builtin{"number", plain<is_number>},
                            Builtin{"odd", has_rest<1>},
                            Builtin{"sameas", compared<is_same>},
                            Builtin{"sequence", plain<is_sequence>},
                            Builtin{"string", plain<is_a<Shared<Text>>>},
                            Builtin{"test", plain<names_test>},
                            Builtin{"true", plain<is_bool<true>>},
                            Builtin{"undefined", plain<is_a<Undefined>>},
                            Builtin{"upper", in_case<is_upper>}};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace folio::data::jinja
