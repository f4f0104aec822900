#include "service/transaction.hpp"

#include <new>

namespace icecore::service {

std::size_t transaction::bytes() const noexcept {
  std::size_t sum = sizeof(transaction);
  for (const condition& c : conditions) sum += sizeof(condition) + c.key.size() + c.value.size();
  for (const auto* list : {&then, &otherwise}) {
    for (const operation& o : *list) sum += sizeof(operation) + o.key.size() + o.end.size() + o.value.size();
  }
  return sum;
}

failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const icecore::error& e) {
    return {static_cast<errc>(e.code().value()), e.message()};
  } catch (const std::bad_alloc&) {
    return {errc::limit_reached, "the server is out of memory; try again later, or with less at once"};
  } catch (const std::exception& e) {
    return {errc::io, e.what()};
  } catch (...) {
    return {errc::io, "an unknown error"};
  }
}

void raise(const failure& what) { throw icecore::error(what.code, what.message); }

}  // namespace icecore::service
