// A history that is to be spoiled, with its records and operations at hand.
//
//   patient p(h, random);
//   if (const auto r = p.any_record([&](const record_place& x) { return p.inserter(x) != nullptr; })) p.erase(*r);
//
// Threads: one. Views into the history: valid until records are erased or added.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "violation.hpp"

namespace icecore::testing {

using random_source = std::mt19937_64;

/// A record in the inspection that found it first.
struct record_place {
  std::uint32_t life;
  std::uint32_t key;
  std::size_t position;  // among all records of the key
  found_record* record;
};

/// A history to be spoiled, with its records and operations at hand.
class patient {
 public:
  patient(history& h, random_source& random) : h_(&h), random_(&random) {
    for (std::uint32_t l = 0; l < h.lives.size(); ++l) {
      for (auto& i : h.lives[l].inspections) {
        for (auto& k : i.keys) {
          for (auto& r : k.more) {
            auto& of_key = records_[k.key];
            of_key.push_back({l, k.key, of_key.size(), &r});
          }
        }
      }
    }
    for_each_operation(h, [&](place_of_call p, const operation& o) {
      if (o.what == call::insert || o.what == call::batch_insert) by_value_[o.value] = p;
    });
  }

  [[nodiscard]] history& h() { return *h_; }
  [[nodiscard]] operation& at(place_of_call p) { return h_->lives[p.life].clients[p.client][p.index]; }
  [[nodiscard]] std::vector<record_place>& records(std::uint32_t key) { return records_[key]; }
  [[nodiscard]] std::map<std::uint32_t, std::vector<record_place>>& keys() { return records_; }
  [[nodiscard]] operation* writer(std::uint64_t value) {
    const auto place = by_value_.find(value);
    return place == by_value_.end() ? nullptr : &at(place->second);
  }
  /// The insert, not of a batch, that returned and wrote this record.
  [[nodiscard]] operation* inserter(const record_place& r) {
    operation* const o = r.record->value == 0 ? nullptr : writer(r.record->value);
    return o != nullptr && o->what == call::insert && o->return_ns != 0 ? o : nullptr;
  }

  /// A random operation among those that `fits`.
  template <class Fits>
  [[nodiscard]] std::optional<place_of_call> any(Fits fits) {
    std::vector<place_of_call> fitting;
    for_each_operation(*h_, [&](place_of_call p, const operation& o) {
      if (fits(p, o)) fitting.push_back(p);
    });
    if (fitting.empty()) return std::nullopt;
    return fitting[(*random_)() % fitting.size()];
  }
  /// A random record among those that `fits`.
  template <class Fits>
  [[nodiscard]] std::optional<record_place> any_record(Fits fits) {
    std::vector<record_place> fitting;
    for (const auto& [key, all] : records_) {
      for (const auto& r : all) {
        if (fits(r)) fitting.push_back(r);
      }
    }
    if (fitting.empty()) return std::nullopt;
    return fitting[(*random_)() % fitting.size()];
  }
  [[nodiscard]] const record_place* next(const record_place& r) {
    auto& all = records_[r.key];
    return r.position + 1 < all.size() ? &all[r.position + 1] : nullptr;
  }
  [[nodiscard]] const record_place* previous(const record_place& r) {
    return r.position == 0 ? nullptr : &records_[r.key][r.position - 1];
  }

  /// As if the record had never been.
  void erase(const record_place& r) { edit(r, 0); }
  /// As if `fresh` had been behind the record from the beginning.
  void add_behind(const record_place& r, const found_record& fresh) { edit(r, 1, fresh); }

 private:
  void edit(const record_place& r, int grown, const found_record& fresh = {}) {
    bool found = false;
    for (auto& l : h_->lives) {
      for (auto& i : l.inspections) {
        for (auto& k : i.keys) {
          if (k.key != r.key) continue;
          const auto place = std::ranges::find_if(k.more, [&](const found_record& f) { return &f == r.record; });
          if (place != k.more.end()) {
            found = true;
            if (grown == 0) {
              k.more.erase(place);
            } else {
              k.more.insert(place + 1, fresh);
            }
          } else if (found) {
            k.known += grown == 0 ? ~std::uint64_t{0} : 1;
          }
        }
      }
    }
  }

  history* h_;
  random_source* random_;
  std::map<std::uint32_t, std::vector<record_place>> records_;
  std::unordered_map<std::uint64_t, place_of_call> by_value_;
};

/// A value that nobody writes.
inline constexpr std::uint64_t from_nowhere = 0x7fffffffffff;

}  // namespace icecore::testing
