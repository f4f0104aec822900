#include "fibers.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>

namespace icecore::crash {

bool fibers::active_ = false;
std::uint8_t fibers::current_ = 0;
unsigned fibers::waits_ = 0;
void (*fibers::on_change)(unsigned) = [](unsigned) {};

namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20;

struct stack {
  stack()
      : base(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (base == MAP_FAILED) throw std::bad_alloc();
  }
  ~stack() { munmap(base, stack_bytes); }
  stack(const stack&) = delete;
  stack& operator=(const stack&) = delete;
  void* base;
};

struct fiber {
  ucontext_t context{};
  const std::function<void()>* body = nullptr;
  const volatile void* blocked_on = nullptr;
  std::exception_ptr failure;
};

struct {
  std::deque<fiber> all;                       // contexts must stay where they are
  std::deque<std::function<void()>> spawned;   // bodies, kept from run to run
  std::vector<std::unique_ptr<stack>> stacks;  // kept from run to run
  std::vector<step> next;
  std::vector<bool> ready;
  schedule* how = nullptr;
  ucontext_t outside{};
} world;

void update_ready() {
  for (std::size_t i = 0; i < world.all.size(); ++i) {
    world.ready[i] = world.all[i].body != nullptr && world.all[i].blocked_on == nullptr;
  }
}

void go_to(unsigned target, ucontext_t* from, std::uint8_t& current) {
  current = static_cast<std::uint8_t>(target);
  fibers::on_change(target);
  swapcontext(from, &world.all[target].context);
}

}  // namespace

random_schedule::random_schedule(std::uint64_t seed) : random_(seed) {
  constexpr unsigned choices[] = {1, 2, 4, 10, 30, 100};
  one_in_ = choices[random_() % std::size(choices)];
}

unsigned random_schedule::choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) {
  if (ready[current] && random_() % one_in_ != 0) return current;
  const std::size_t first = random_() % next.size();
  for (std::size_t i = 0;; ++i) {
    const std::size_t candidate = (first + i) % next.size();
    if (ready[candidate] && (candidate != current || i == next.size())) return static_cast<unsigned>(candidate);
    if (i == next.size()) return current;
  }
}

bool fibers::is_own_stack(const volatile void* at) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(world.stacks[current_]->base);
  return reinterpret_cast<std::uintptr_t>(at) - base < stack_bytes;
}

unsigned fibers::chosen_after(unsigned last) {
  active_ = false;  // what a schedule does is no writer's
  const unsigned chosen = world.how->choose(last, world.next, world.ready);
  active_ = true;
  return chosen;
}

void fibers::change(const volatile void* at, bool writes) {
  const unsigned me = current_;
  world.next[me] = {at, writes};
  update_ready();
  const unsigned chosen = chosen_after(me);
  if (chosen != me) go_to(chosen, &world.all[me].context, current_);
}

void fibers::block(const volatile void* at) {
  const unsigned me = current_;
  world.all[me].blocked_on = at;
  update_ready();
  bool any = false;
  for (const bool r : world.ready) any = any || r;
  if (!any) {
    std::fprintf(stderr, "deadlock: every writer waits for a lock\n");
    std::abort();
  }
  world.next[me] = {at, true};
  const unsigned chosen = chosen_after(me);
  if (chosen != me) go_to(chosen, &world.all[me].context, current_);
}

void fibers::wake(const volatile void* at) noexcept {
  for (fiber& f : world.all) {
    if (f.blocked_on == at) f.blocked_on = nullptr;
  }
}

namespace {

void run_body() {
  const unsigned me = fibers::current();
  try {
    (*world.all[me].body)();
  } catch (...) {
    world.all[me].failure = std::current_exception();
  }
  world.all[me].body = nullptr;
  swapcontext(&world.all[me].context, &world.outside);  // never comes back
}

}  // namespace

namespace {

void prepare(std::size_t number, const std::function<void()>& body) {
  while (world.stacks.size() <= number) world.stacks.push_back(std::make_unique<stack>());
  fiber& f = world.all[number];
  f.body = &body;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = world.stacks[number]->base;
  f.context.uc_stack.ss_size = stack_bytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, run_body, 0);
}

}  // namespace

void fibers::spawn(std::function<void()> body) {
  std::size_t number = 0;
  while (number < world.all.size() && world.all[number].body != nullptr) ++number;
  if (number == world.all.size()) {
    world.all.emplace_back();
    world.next.emplace_back();
    world.ready.push_back(true);
  }
  world.all[number].blocked_on = nullptr;
  world.next[number] = {};
  if (world.spawned.size() <= number) world.spawned.resize(number + 1);
  world.spawned[number] = std::move(body);
  prepare(number, world.spawned[number]);
}

void fibers::run(const std::vector<std::function<void()>>& bodies, schedule& how) {
  world.all.clear();
  world.all.resize(bodies.size());
  world.next.assign(bodies.size(), {});
  world.ready.assign(bodies.size(), true);
  world.how = &how;
  waits_ = 0;
  for (std::size_t i = 0; i < bodies.size(); ++i) prepare(i, bodies[i]);
  active_ = true;
  unsigned last = 0;
  for (;;) {
    update_ready();
    bool any = false;
    bool waiting = false;
    for (std::size_t i = 0; i < world.all.size(); ++i) {
      any = any || world.ready[i];
      waiting = waiting || world.all[i].body != nullptr;
    }
    if (!waiting) break;
    if (!any) {
      std::fprintf(stderr, "deadlock: every writer left waits for a lock\n");
      std::abort();
    }
    last = chosen_after(last);
    go_to(last, &world.outside, current_);
    last = current_;
  }
  active_ = false;
  current_ = 0;
  for (const fiber& f : world.all) {
    if (f.failure) std::rethrow_exception(f.failure);
  }
}

}  // namespace icecore::crash
