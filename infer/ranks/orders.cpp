#include "infer/ranks/orders.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "core/error.h"

namespace folio::infer {
namespace {

// Orders are of processes of one build: values are their bytes.
class Writer {
 public:
  explicit Writer(OrderKind kind, uint32_t stage) {
    put(kind);
    put(stage);
  }
  template <typename T>
  void put(const T& value) {
    put_all(std::span(&value, 1), false);
  }
  template <typename T>
  void put_all(std::span<const T> values, bool counted = true) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (counted) put(static_cast<uint64_t>(values.size()));
    if (values.empty()) return;
    const size_t at = bytes_.size();
    bytes_.resize(at + values.size_bytes());
    std::memcpy(&bytes_[at], values.data(), values.size_bytes());
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value{};
    get_all(std::span(&value, 1));
    return value;
  }
  template <typename T>
  void get_all(std::vector<T>& values) {
    const auto n = get<uint64_t>();
    core::require(n <= bytes_.size() / sizeof(T), "an order of rank 0 is cut off");
    values.resize(n);
    get_all(std::span(values));
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  template <typename T>
  void get_all(std::span<T> values) {
    core::require(values.size_bytes() <= bytes_.size(), "an order of rank 0 is cut off");
    if (values.empty()) return;
    std::memcpy(values.data(), bytes_.data(), values.size_bytes());
    bytes_ = bytes_.subspan(values.size_bytes());
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

Step Order::step() const {
  return {.rows = rows,
          .tables = tables,
          .table_starts = table_starts,
          .copies = copies,
          .n_logit_rows = n_logit_rows,
          .draws = {},
          .observed = observed};
}

std::vector<std::byte> to_bytes(OrderKind kind, uint32_t stage, const Step& step) {
  Writer out(kind, stage);
  out.put_all(step.rows);
  out.put_all(step.tables);
  out.put_all(step.table_starts);
  out.put_all(step.copies);
  out.put(static_cast<uint64_t>(step.n_logit_rows));
  out.put(step.observed);
  return out.take();
}

std::vector<std::byte> to_bytes(OrderKind kind, uint32_t stage, int32_t number, const core::Adapter& adapter) {
  Writer out(kind, stage);
  out.put(number);
  out.put_all(std::span<const char>(adapter.path));
  out.put(static_cast<uint64_t>(adapter.parts.size()));
  for (const core::Adapter::Part& part : adapter.parts) {
    out.put(part.role);
    out.put(part.layer);
    out.put(static_cast<uint64_t>(part.rank));
    out.put(part.scale);
    out.put_all(std::span<const float>(part.a));
    out.put_all(std::span<const float>(part.b));
  }
  return out.take();
}

Order to_order(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Order order;
  order.kind = in.get<OrderKind>();
  order.stage = in.get<uint32_t>();
  if (order.kind == OrderKind::Step || order.kind == OrderKind::End) {
    in.get_all(order.rows);
    in.get_all(order.tables);
    in.get_all(order.table_starts);
    in.get_all(order.copies);
    order.n_logit_rows = in.get<uint64_t>();
    order.observed = in.get<bool>();
  } else {
    order.number = in.get<int32_t>();
    std::vector<char> path;
    in.get_all(path);
    order.adapter.path.assign(path.begin(), path.end());
    order.adapter.parts.resize(in.get<uint64_t>());
    for (core::Adapter::Part& part : order.adapter.parts) {
      part.role = in.get<core::Role>();
      part.layer = in.get<int64_t>();
      part.rank = in.get<uint64_t>();
      part.scale = in.get<float>();
      in.get_all(part.a);
      in.get_all(part.b);
    }
  }
  core::require(in.at_end(), "an order of rank 0 is longer than it says");
  return order;
}

}  // namespace folio::infer
