// What keeps the bytes behind views valid: a pin on an open store.
//
//   icecore::pin holds;                                     // outlives `found`, whose views it keeps valid
//   std::vector<std::optional<std::string_view>> found(keys.size());
//   holds = s.find_many(keys, v, found);
//   s.close();                                              // the views stay valid until `holds` ends
//
// Snapshots, cursors, ranges, histories, differences, lists and values each hold a pin, so few programs name this
// class.
//
// Threads: any thread may take, copy or release pins; one pin belongs to one thread at a time. A pin may end on another
//   thread than the one that took it. A signal handler must not take or release any.
// Lifetime: everything that is read from the store while a pin lives, through whatever object, stays where it is and
//   keeps its content until the pin ends, even if the store is closed or destroyed before. A store that is closed while
//   pins live gives up its file and locks at once; what the views lead into stays mapped until the last pin ends.
// Cost: taking or releasing one writes to a cache line of the thread's own, without an atomic read-modify-write or a
//   memory fence while at most 128 threads live. Once the store is closed, releasing one reads 144 cache lines, and the
//   last one unmaps the memory.
// Errors: none, except core(). Pins belong to a process: none is left of a killed one.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] icecore {

namespace detail {
class opened_store;
class pin_table;
class store_core;
}  // namespace detail

class [[nodiscard]] pin {
 public:
  /// Holds nothing.
  pin() noexcept = default;
  explicit pin(detail::pin_table& of) noexcept : of_(&of) { take(of); }
  pin(const pin& other) noexcept : of_(other.of_) {
    if (of_ != nullptr) take(*of_);
  }
  pin(pin&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  pin& operator=(const pin& other) noexcept {
    pin copy(other);
    swap(copy);
    return *this;
  }
  pin& operator=(pin&& other) noexcept {
    pin taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~pin() { reset(); }

  /// Ends the pin now. What was read under it may be used no more, unless another pin of this store kept it valid, too.
  void reset() noexcept {
    if (of_ != nullptr) release(*std::exchange(of_, nullptr));
  }
  void swap(pin& other) noexcept { std::swap(of_, other.of_); }
  /// For code that keeps pins in structures of another language: gives up the ownership of a pin, and takes it again.
  /// Each detached pin must be adopted exactly once.
  [[nodiscard]] detail::pin_table* detach() noexcept { return std::exchange(of_, nullptr); }
  [[nodiscard]] static pin adopt(detail::pin_table* detached) noexcept {
    pin made;
    made.of_ = detached;
    return made;
  }
  /// Whether it holds anything.
  explicit operator bool() const noexcept { return of_ != nullptr; }

  /// The store's inside, for the classes that read it. errc::closed once the store is closed, or if the pin holds
  /// nothing.
  [[nodiscard]] const detail::store_core& core() const;

 private:
  static void take(detail::pin_table& of) noexcept;
  static void release(detail::pin_table& of) noexcept;

  detail::pin_table* of_ = nullptr;
};

/// A list of views that stay valid as long as the list lives. Its elements do not change.
template <class T>
class pinned_list {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = const T&;
  using reference = const_reference;
  using const_iterator = typename std::vector<T>::const_iterator;
  using iterator = const_iterator;

  pinned_list() = default;
  pinned_list(std::vector<T> elements, pin holds) noexcept : holds_(std::move(holds)), elements_(std::move(elements)) {}

  [[nodiscard]] const_iterator begin() const noexcept { return elements_.begin(); }
  [[nodiscard]] const_iterator end() const noexcept { return elements_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }
  [[nodiscard]] bool empty() const noexcept { return elements_.empty(); }
  [[nodiscard]] const T* data() const& noexcept { return elements_.data(); }
  /// Preconditions of these: the element exists. A temporary list would take the views with it: name it first.
  [[nodiscard]] const T& operator[](std::size_t i) const& noexcept { return elements_[i]; }
  [[nodiscard]] const T& front() const& noexcept { return elements_.front(); }
  [[nodiscard]] const T& back() const& noexcept { return elements_.back(); }
  const T* data() const&& = delete;
  const T& operator[](std::size_t i) const&& = delete;
  const T& front() const&& = delete;
  const T& back() const&& = delete;

  friend bool operator==(const pinned_list& a, const pinned_list& b) { return a.elements_ == b.elements_; }
  friend bool operator==(const pinned_list& a, const std::vector<T>& b) { return a.elements_ == b; }

 private:
  pin holds_;
  std::vector<T> elements_;
};

}  // namespace icecore
