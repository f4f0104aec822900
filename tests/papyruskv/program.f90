! A program for PapyrusKV in Fortran: it knows PapyrusKV's module and library alone. Its argument is a folder.
module papyrus_program_functions
  use, intrinsic :: iso_c_binding
  implicit none

contains

  ! By the last letter of a key.
  integer(c_int) function by_last_letter(key, keylen, nranks) bind(c)
    character(kind=c_char), intent(in) :: key(*)
    integer(c_size_t), value :: keylen, nranks
    by_last_letter = int(mod(int(ichar(key(keylen)), c_size_t), nranks), c_int)
  end function by_last_letter

  ! Adds a number to another; the caller gets what it was before.
  integer(c_int) function count_up(key, keylen, val, vallen, userin, userinlen, userout, useroutlen) bind(c)
    character(kind=c_char), intent(in) :: key(*)
    integer(c_size_t), value :: keylen, userinlen, useroutlen
    type(c_ptr), intent(inout) :: val
    integer(c_size_t), intent(inout) :: vallen
    type(c_ptr), value :: userin, userout
    integer(c_int), pointer :: count, by, before

    count_up = 0
    if (key(keylen) /= 'n' .or. userinlen /= c_sizeof(count_up) .or. useroutlen /= c_sizeof(count_up)) return
    call c_f_pointer(val, count)
    call c_f_pointer(userin, by)
    call c_f_pointer(userout, before)
    if (vallen == 0) count = 0
    before = count
    count = count + by
    vallen = c_sizeof(count_up)
    count_up = 1
  end function count_up

end module papyrus_program_functions

program papyrus_program
  use, intrinsic :: iso_c_binding
  use mpi
  use papyrus
  use papyrus_program_functions
  implicit none

  integer, parameter :: keys = 300
  integer :: rank, ranks, provided, ierror, db, event, to(1), from(1)
  character(len=200) :: folder

  call mpi_init_thread(MPI_THREAD_MULTIPLE, provided, ierror)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierror)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, ierror)
  call get_command_argument(1, folder)

  call check_constants()
  call papyruskv_init(trim(folder)//'/repository'//char(0), ierror)
  call check(ierror, 'init')
  call papyruskv_open('db'//char(0), ior(PAPYRUSKV_CREATE, ior(PAPYRUSKV_RELAXED, PAPYRUSKV_RDWR)), db, ierror)
  call check(ierror, 'open')

  call write_all()
  call papyruskv_barrier(db, PAPYRUSKV_MEMTABLE, ierror)
  call check(ierror, 'barrier')
  call read_all()

  call papyruskv_checkpoint(db, trim(folder)//'/checkpoint'//char(0), event, ierror)
  call check(ierror, 'checkpoint')
  call papyruskv_wait(db, event, ierror)
  call check(ierror, 'wait')
  call papyruskv_wait(db, event, ierror)
  call expect(ierror == PAPYRUSKV_ERR, 'an event is waited for once')

  call papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL, ierror)
  call check(ierror, 'consistency')
  to(1) = mod(rank + 1, ranks)
  from(1) = mod(rank + ranks - 1, ranks)
  call put(rank, 'after the checkpoint')
  call papyruskv_signal_notify(3, to, 1, ierror)
  call check(ierror, 'signal_notify')
  call papyruskv_signal_wait(3, from, 1, ierror)
  call check(ierror, 'signal_wait')
  call expect_value(from(1), 'after the checkpoint')
  call papyruskv_barrier(db, PAPYRUSKV_SSTABLE, ierror)
  call check(ierror, 'barrier to storage')

  call papyruskv_destroy(db, event, ierror)
  call check(ierror, 'destroy')
  call papyruskv_wait(db, event, ierror)
  call check(ierror, 'wait for destroy')
  call papyruskv_close(db, ierror)
  call check(ierror, 'close')

  call papyruskv_restart(trim(folder)//'/checkpoint'//char(0), 'db'//char(0), PAPYRUSKV_RDWR, db, event, ierror)
  call check(ierror, 'restart')
  call papyruskv_wait(db, event, ierror)
  call check(ierror, 'wait for restart')
  call papyruskv_protect(db, PAPYRUSKV_RDONLY, ierror)
  call check(ierror, 'protect')
  call read_all()
  call papyruskv_fence(db, PAPYRUSKV_MEMTABLE, ierror)
  call check(ierror, 'fence')
  call papyruskv_close(db, ierror)
  call check(ierror, 'close')
  call update_and_iterate()
  call papyruskv_finalize(ierror)
  call check(ierror, 'finalize')
  call mpi_finalize(ierror)
  if (rank == 0) print '(a)', 'all is right'

contains

  subroutine check(result, what)
    integer, intent(in) :: result
    character(len=*), intent(in) :: what
    call expect(result == PAPYRUSKV_OK, what)
  end subroutine check

  subroutine expect(truth, what)
    logical, intent(in) :: truth
    character(len=*), intent(in) :: what
    integer :: ignored
    if (truth) return
    print '(a,i0,2a)', 'FAILED on rank ', rank, ': ', what
    call mpi_abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine expect

  ! As in papyrus/kv.h.
  subroutine check_constants()
    integer, parameter :: ours(11) = [PAPYRUSKV_OK, PAPYRUSKV_ERR, PAPYRUSKV_MEMTABLE, PAPYRUSKV_SSTABLE, &
      PAPYRUSKV_SEQUENTIAL, PAPYRUSKV_RELAXED, PAPYRUSKV_CREATE, PAPYRUSKV_RDWR, PAPYRUSKV_WRONLY, PAPYRUSKV_RDONLY, &
      PAPYRUSKV_UDONLY]
    call expect(all(ours == [0, -1, 1, 2, 1, 2, 4, 8, 16, 32, 64]), 'the constants')
  end subroutine check_constants

  function key_of(number) result(key)
    integer, intent(in) :: number
    character(len=12) :: key
    write (key, '(a,i0)') 'key-', number
  end function key_of

  function value_of(number) result(value)
    integer, intent(in) :: number
    character(len=40) :: value
    write (value, '(a,i0)') 'the value of ', number
  end function value_of

  subroutine put(number, value)
    integer, intent(in) :: number
    character(len=*), intent(in) :: value
    character(len=12) :: key
    key = key_of(number)
    call papyruskv_put(db, key, len_trim(key, kind=8), value, len(value, kind=8), ierror)
    call check(ierror, 'put')
  end subroutine put

  subroutine write_all()
    integer :: number
    character(len=12) :: key
    do number = rank, keys - 1, ranks
      call put(number, trim(value_of(number)))
      if (mod(number, 7) == 0) then
        key = key_of(number)
        call papyruskv_delete(db, key, len_trim(key, kind=8), ierror)
        call check(ierror, 'delete')
      end if
    end do
  end subroutine write_all

  ! Into memory of the library, into an array of the program, and into one that is too small.
  subroutine expect_value(number, expected)
    integer, intent(in) :: number
    character(len=*), intent(in) :: expected
    character(len=12) :: key
    character, pointer :: value(:)
    character, target :: array(100)
    integer(kind=8) :: length, at

    key = key_of(number)
    nullify(value)
    call papyruskv_get(db, key, len_trim(key, kind=8), value, length, ierror)
    call check(ierror, 'get')
    call expect(length == len(expected), 'the length')
    do at = 1, length
      call expect(value(at) == expected(at:at), 'the value')
    end do
    call papyruskv_free(value, ierror)
    call check(ierror, 'free')
    call expect(.not. associated(value), 'free forgets the value')

    array = '#'
    value => array
    call papyruskv_get(db, key, len_trim(key, kind=8), value, length, ierror)
    call check(ierror, 'get to an array')
    call expect(length == len(expected), 'the length in the array')
    do at = 1, length
      call expect(array(at) == expected(at:at), 'the value in the array')
    end do
    call expect(array(length + 1) == '#', 'what is behind it')

    array = '#'
    value => array(1:3)
    call papyruskv_get(db, key, len_trim(key, kind=8), value, length, ierror)
    call expect(ierror == PAPYRUSKV_ERR, 'an array that is too small is refused')
    call expect(all(array == '#'), 'and not overrun')
  end subroutine expect_value

  subroutine read_all()
    integer :: number
    character(len=12) :: key
    character, pointer :: value(:)
    integer(kind=8) :: length
    do number = 0, keys - 1
      if (mod(number, 7) /= 0) then
        call expect_value(number, trim(value_of(number)))
        cycle
      end if
      key = key_of(number)
      nullify(value)
      call papyruskv_get(db, key, len_trim(key, kind=8), value, length, ierror)
      call expect(ierror == PAPYRUSKV_ERR, 'a deleted key is gone')
    end do
  end subroutine read_all

  ! Each rank adds its number plus 1 to the key 'n', twice; all keys are at the rank that the program's hash says.
  subroutine update_and_iterate()
    type(papyruskv_pos_t) :: pos
    type(papyruskv_iter_t), pointer :: iter
    character, pointer :: key(:), value(:)
    integer(c_int), target :: by, before
    integer(c_int), pointer :: count
    integer(kind=8) :: length
    integer :: here

    call papyruskv_open('counted'//char(0), PAPYRUSKV_CREATE, db, ierror)
    call check(ierror, 'open for updates')
    call papyruskv_hash(db, by_last_letter, ierror)
    call check(ierror, 'hash')
    call papyruskv_register_update(db, 4, count_up, ierror)
    call check(ierror, 'register_update')
    by = rank + 1
    call papyruskv_update(db, 'n', 1_8, pos, 4, c_loc(by), c_sizeof(by), c_loc(before), c_sizeof(before), ierror)
    call check(ierror, 'update')

    nullify(value)
    call papyruskv_get_pos(db, 'n', 1_8, value, length, pos, ierror)
    call check(ierror, 'get_pos')
    call expect(length == c_sizeof(by) .and. c_associated(pos%handle), 'what get_pos found')
    call papyruskv_free(value, ierror)
    call papyruskv_update(db, 'n', 1_8, pos, 4, c_loc(by), c_sizeof(by), c_loc(before), c_sizeof(before), ierror)
    call check(ierror, 'update at a position')
    call expect(before >= by, 'what the first update added')
    call papyruskv_barrier(db, PAPYRUSKV_MEMTABLE, ierror)

    here = 0
    call papyruskv_iter_local(db, iter, ierror)
    call check(ierror, 'iter_local')
    do while (associated(iter))
      here = here + 1
      call c_f_pointer(iter%key, key, [iter%keylen])
      call c_f_pointer(iter%val, count)
      call expect(size(key) == 1 .and. key(1) == 'n', 'the key')
      call expect(count == ranks * (ranks + 1), 'all updates')
      call papyruskv_iter_next(db, iter, ierror)
      call check(ierror, 'iter_next')
    end do
    call expect(here == merge(1, 0, rank == mod(ichar('n'), ranks)), 'it is at its owner alone')
    call papyruskv_iter_next(db, iter, ierror)
    call expect(ierror == PAPYRUSKV_ERR, 'there is none after the last')
    call papyruskv_get_pos(db, 'absent', 6_8, value, length, pos, ierror)
    call expect(ierror == PAPYRUSKV_ERR .and. .not. c_associated(pos%handle), 'a key that is not there')
    call papyruskv_close(db, ierror)
    call check(ierror, 'close')
  end subroutine update_and_iterate

end program papyrus_program
