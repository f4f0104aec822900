#include "conversions.hpp"
#include "operation.hpp"

namespace icecore::remote {

template <class Result>
Result pending<Result>::wait() {
  const wire::answer got = under_way_->wait();
  if (got.status != wire::status_ok) detail::throw_answer(got, under_way_->server());
  return read_(got.payload.view());
}

template <class Result>
bool pending<Result>::wait_for(std::chrono::milliseconds limit) {
  return under_way_->wait_for(limit);
}

template <class Result>
bool pending<Result>::test() {
  return under_way_->test();
}

template <class Result>
void pending<Result>::cancel() {
  under_way_->cancel();
}

template class pending<version>;
template class pending<std::optional<version>>;
template class pending<std::optional<value>>;
template class pending<update_result>;

}  // namespace icecore::remote
