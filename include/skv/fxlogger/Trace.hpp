// SKV's programs include a header of this name beside the logger's. Its traces were switched off unless SKV was built
// with them; so nothing is here.
#pragma once

#include <FxLogger.hpp>
