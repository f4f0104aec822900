! Errors and text for the modules of icecore.
module icecore_support
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use icecore_c
  implicit none
  private
  public :: report, from_c, copy_text, is_missing, icecore_library

  ! Codes that programs ask for; icecore_codes.h has all of them.
  integer, parameter, public :: ICECORE_OK = 0, ICECORE_INVALID_ARGUMENT = 1, ICECORE_KEY_TOO_LONG = 2
  integer, parameter, public :: ICECORE_VALUE_TOO_LARGE = 3, ICECORE_NOT_A_STORE = 4, ICECORE_DAMAGED = 6
  integer, parameter, public :: ICECORE_LOCKED = 8, ICECORE_NO_SPACE = 9, ICECORE_VERSION_NOT_CLOSED = 12
  integer, parameter, public :: ICECORE_UNKNOWN_TAG = 13, ICECORE_TAG_EXISTS = 14, ICECORE_IS_READ_ONLY = 15
  integer, parameter, public :: ICECORE_CLOSED = 16, ICECORE_NO_SUCH_STORE = 20, ICECORE_STORE_EXISTS = 21
  integer, parameter, public :: ICECORE_QUERY_EXISTS = 32, ICECORE_NO_SUCH_QUERY = 33, ICECORE_VERSION_EXPIRED = 36

contains

  ! Hands an outcome to the caller, or ends the program if the caller does not ask for it.
  subroutine report(code, stat, message, text)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    character(len=*), intent(in), optional :: text

    if (present(stat)) stat = int(code)
    if (code == ICECORE_OK) return
    if (present(text)) then
      call tell(text, present(stat), message)
    else
      call tell(from_c(icecore_last_error_message()), present(stat), message)
    end if
  end subroutine

  subroutine tell(what, goes_on, message)
    character(len=*), intent(in) :: what
    logical, intent(in) :: goes_on
    character(len=*), intent(inout), optional :: message

    if (present(message)) message = what
    if (goes_on) return
    write (error_unit, '(2a)') 'icecore: ', what
    error stop 1
  end subroutine

  function from_c(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(len=:), allocatable :: copy
    type(icecore_bytes_c) :: bytes
    bytes = icecore_bytes_c(text, c_strlen(text))
    call copy_text(bytes, copy)
  end function

  ! Not allocated where nothing is there.
  subroutine copy_text(bytes, copy)
    type(icecore_bytes_c), intent(in) :: bytes
    character(len=:), allocatable, intent(out) :: copy
    character(kind=c_char), pointer :: letters(:)
    integer(int64) :: i

    if (.not. c_associated(bytes%data)) return
    allocate (character(len=bytes%size) :: copy)
    if (bytes%size == 0) return
    call c_f_pointer(bytes%data, letters, [bytes%size])
    do concurrent (i = 1:int(bytes%size, int64))
      copy(i:i) = letters(i)
    end do
  end subroutine

  ! The version of the library that is linked, as "0.1.0".
  function icecore_library() result(version)
    character(len=:), allocatable :: version
    version = from_c(icecore_library_version())
  end function

  ! An object that is not open: the message names what to do.
  logical function is_missing(handle, what, stat, message) result(missing)
    type(c_ptr), intent(in) :: handle
    character(len=*), intent(in) :: what
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: message
    missing = .not. c_associated(handle)
    if (missing) call report(int(ICECORE_CLOSED, c_int), stat, message, what // ' is not open: open it first')
  end function
end module icecore_support
