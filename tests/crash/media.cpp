#include "media.hpp"

#include <algorithm>
#include <cstring>

namespace icecore::crash {

media::media(unit granularity, std::span<const std::byte> content, bool exists)
    : shift_(static_cast<unsigned>(granularity)),
      lines_(granularity == unit::line),
      guaranteed_(content.begin(), content.end()),
      working_(guaranteed_),
      may_be_missing_(!exists) {
  sizes_.push_back({0, content.size()});
  reach(content.size());
}

/// The guaranteed bytes cover all sizes the file may have: what no store reached is zero.
void media::reach(std::uint64_t size) {
  if (guaranteed_.size() < size) guaranteed_.resize(size);
  const std::uint64_t units = ((size - 1) >> shift_) + 1;
  if (size != 0 && pending_.size() < units) pending_.resize(units);
}

void media::apply(const event& e) {
  ++time_;
  switch (e.what) {
    case event::kind::store: {
      std::memcpy(working_.data() + e.offset, &e.value, e.size);
      const auto number = static_cast<std::uint32_t>(e.offset >> shift_);
      if (pending_[number].empty()) dirty_.push_back(number);
      pending_[number].push_back({time_, e.value, static_cast<std::uint32_t>(e.offset), e.size});
      break;
    }
    case event::kind::flush:
      if (!lines_) break;
      for (std::uint64_t at = e.offset >> shift_; e.value != 0 && at <= (e.offset + e.value - 1) >> shift_; ++at) {
        if (at < pending_.size() && !pending_[at].empty()) {
          flushed_[e.writer].push_back({static_cast<std::uint32_t>(at), time_});
        }
      }
      break;
    case event::kind::fence:
      for (const flushed& f : flushed_[e.writer]) guarantee(f.number, f.time);
      flushed_[e.writer].clear();
      break;
    case event::kind::sync_begin:
      sync_began_[e.writer] = time_;
      break;
    case event::kind::sync_end:
      guarantee_all(sync_began_[e.writer]);
      break;
    case event::kind::resize:
      working_.resize(e.value);
      reach(e.value);
      sizes_.push_back({time_, e.value});
      break;
    case event::kind::directory_sync:
      may_be_missing_ = false;
      break;
    case event::kind::begin:
    case event::kind::end:
      break;
  }
}

void media::guarantee(std::uint32_t number, std::uint64_t before) {
  auto& stores = pending_[number];
  const auto kept = std::ranges::find_if(stores, [before](const store& s) { return s.time > before; });
  for (auto s = stores.begin(); s != kept; ++s) std::memcpy(guaranteed_.data() + s->offset, &s->value, s->size);
  stores.erase(stores.begin(), kept);
  if (stores.empty()) std::erase(dirty_, number);
}

void media::guarantee_all(std::uint64_t before) {
  const auto dirty = dirty_;
  for (const std::uint32_t number : dirty) guarantee(number, before);
  while (sizes_.size() > 1 && sizes_[1].time <= before) sizes_.erase(sizes_.begin());
}

choices::choices(const media& of) : of_(of) {
  const auto times = [this](std::uint64_t n) { count_ = count_ > (std::uint64_t{1} << 40) ? count_ : count_ * n; };
  std::vector<std::byte> content(std::size_t{1} << of.shift_);
  for (const std::uint32_t number : of.dirty_) {
    const std::uint64_t begin = std::uint64_t{number} << of.shift_;
    media::open_unit u{number, {0}};
    const std::uint64_t size = std::min<std::uint64_t>(content.size(), of.guaranteed_.size() - begin);
    std::memcpy(content.data(), of.guaranteed_.data() + begin, size);
    std::uint32_t count = 0;
    for (const auto& s : of.pending_[number]) {
      ++count;
      std::byte* at = content.data() + (s.offset - begin);
      if (std::memcmp(at, &s.value, s.size) == 0) continue;
      std::memcpy(at, &s.value, s.size);
      u.prefixes.push_back(count);
    }
    if (u.prefixes.size() == 1) continue;
    times(u.prefixes.size());
    units_.push_back(std::move(u));
  }
  times(of.sizes_.size());
  if (of.may_be_missing_) times(2);
}

/// The file as one choice leaves it; undone before the next.
struct choices::made {
  const media& of;
  const std::vector<media::open_unit>& units;
  image bytes;

  made(const media& m, const std::vector<media::open_unit>& u) : of(m), units(u), bytes(m.guaranteed_) {}

  void set(std::size_t i, std::uint32_t prefix) {
    const std::uint64_t begin = std::uint64_t{units[i].number} << of.shift_;
    const std::uint64_t size = std::min<std::uint64_t>(std::uint64_t{1} << of.shift_, bytes.size() - begin);
    std::memcpy(bytes.data() + begin, of.guaranteed_.data() + begin, size);
    const auto& stores = of.pending_[units[i].number];
    for (std::uint32_t k = 0; k < prefix; ++k) {
      std::memcpy(bytes.data() + stores[k].offset, &stores[k].value, stores[k].size);
    }
  }
  void show(std::size_t size_index, const visitor& visit) const {
    visit(std::span(bytes).first(of.sizes_[size_index].size), false);
  }
};

void choices::for_each(std::uint64_t most, std::mt19937_64& random, const visitor& visit) const {
  made m(of_, units_);
  const std::size_t sizes = of_.sizes_.size();
  if (of_.may_be_missing_) visit({}, true);
  if (count_ <= most) {
    std::vector<std::size_t> at(units_.size(), 0);
    for (;;) {
      for (std::size_t s = 0; s < sizes; ++s) m.show(s, visit);
      std::size_t i = 0;
      while (i < units_.size() && ++at[i] == units_[i].prefixes.size()) {
        at[i] = 0;
        m.set(i, 0);
        ++i;
      }
      if (i == units_.size()) return;
      m.set(i, units_[i].prefixes[at[i]]);
    }
  }
  std::uint64_t shown = 0;
  const auto show = [&] {
    m.show(sizes == 1 ? 0 : random() % sizes, visit);
    ++shown;
  };
  const auto set_all = [&](bool arrived) {
    for (std::size_t i = 0; i < units_.size(); ++i) m.set(i, arrived ? units_[i].prefixes.back() : 0);
  };
  for (const bool arrived : {false, true}) {
    set_all(arrived);
    show();
    // each alone, and all but one: of those that are too many, some
    const std::size_t alone = std::min<std::size_t>(units_.size(), most / 4);
    for (std::size_t k = 0; k < alone; ++k) {
      const std::size_t i = alone == units_.size() ? k : random() % units_.size();
      const auto& prefixes = units_[i].prefixes;
      m.set(i, arrived ? prefixes[random() % (prefixes.size() - 1)] : prefixes[1 + random() % (prefixes.size() - 1)]);
      show();
      m.set(i, arrived ? prefixes.back() : 0);
    }
  }
  while (shown < most) {
    // of every eight units so many at their first, so many at their last state, the rest anywhere
    const std::uint64_t first = random() % 9;
    const std::uint64_t last = random() % 9;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const auto& prefixes = units_[i].prefixes;
      const std::uint64_t draw = random() % 16;
      m.set(i, draw < first ? 0 : draw < first + last ? prefixes.back() : prefixes[random() % prefixes.size()]);
    }
    show();
  }
}

}  // namespace icecore::crash
