! Tests of the Fortran module: store_test CASE STORE. Each case is one test.
program store_test
  use icecore
  implicit none
  character(len=100) :: name
  character(len=4096) :: path
  integer :: unit

  call get_command_argument(1, name)
  call get_command_argument(2, path)
  open (newunit=unit, file=path)
  close (unit, status='delete')
  select case (name)
  case ('text_keeps_every_byte'); call text_keeps_every_byte()
  case ('arrays_of_every_kind_come_back_bit_for_bit'); call arrays_of_every_kind_come_back_bit_for_bit()
  case ('what_is_not_there_is_not_allocated'); call what_is_not_there_is_not_allocated()
  case ('a_snapshot_never_sees_later_writes'); call a_snapshot_never_sees_later_writes()
  case ('a_batch_is_one_instant'); call a_batch_is_one_instant()
  case ('cursors_walk_bounds_and_prefixes'); call cursors_walk_bounds_and_prefixes()
  case ('histories_walk_both_ways'); call histories_walk_both_ways()
  case ('differences_name_what_changed'); call differences_name_what_changed()
  case ('tags_keep_name_note_and_time'); call tags_keep_name_note_and_time()
  case ('conditional_writes_tell_what_they_did'); call conditional_writes_tell_what_they_did()
  case ('a_store_is_opened_as_it_was_asked'); call a_store_is_opened_as_it_was_asked()
  case ('errors_have_a_number_and_a_message'); call errors_have_a_number_and_a_message()
  case ('what_is_not_open_says_so'); call what_is_not_open_says_so()
  case ('objects_outlive_their_store'); call objects_outlive_their_store()
  case ('versions_that_are_not_kept_expire'); call versions_that_are_not_kept_expire()
  case ('a_version_that_is_held_does_not_expire'); call a_version_that_is_held_does_not_expire()
  case ('a_store_is_packed_by_ranges'); call a_store_is_packed_by_ranges()
  case ('what_is_forgotten_is_in_no_version'); call what_is_forgotten_is_in_no_version()
  case ('what_cannot_be_kept_or_packed_says_why'); call what_cannot_be_kept_or_packed_says_why()
  case ('an_error_that_nobody_asks_for_ends_the_program'); call an_error_that_nobody_asks_for_ends_the_program()
  case default; error stop 'no such case'
  end select

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print '(2a)', 'not so: ', what
    error stop 1
  end subroutine

  subroutine text_keeps_every_byte()
    type(icecore_store) :: store
    character(len=:), allocatable :: value
    character(len=256) :: all
    integer :: i
    do i = 0, 255
      all(i + 1:i + 1) = achar(i)
    end do
    call store%open(path)
    call store%insert(all, all)
    call store%insert('key', 'value')
    call store%insert('key ', 'trailing blank')
    call store%insert('empty', '')
    call store%insert('', 'of the empty key')
    call store%find(all, value)
    call expect(value == all .and. len(value) == 256, 'all bytes')
    call store%find('key', value)
    call expect(value == 'value' .and. len(value) == 5, 'trailing blanks of keys count')
    call store%find('empty', value)
    call expect(allocated(value) .and. len(value) == 0, 'an empty value is there')
    call store%find('', value)
    call expect(value == 'of the empty key', 'the empty key')
  end subroutine

  subroutine arrays_of_every_kind_come_back_bit_for_bit()
    type(icecore_store) :: store
    type(icecore_batch) :: batch
    type(icecore_snapshot) :: then
    integer :: i
    integer(int8), allocatable :: bytes(:)
    integer(int32), allocatable :: words(:)
    integer(int64), allocatable :: longs(:)
    real(real32), allocatable :: floats(:)
    real(real64), allocatable :: doubles(:)
    real(real64) :: field(3, 100), zero
    zero = 0
    call store%open(path)
    call store%insert('bytes', [(int(i, int8), i=-128, 127)])
    call store%insert('words', [huge(1_int32), -1_int32, 0_int32])
    call store%insert('longs', [huge(1_int64), -huge(1_int64)])
    call store%insert('floats', [tiny(1.0_real32), 1.0_real32 / 3])
    call store%insert('doubles', [tiny(1.0_real64), 1.0_real64 / 3, zero / zero])
    call store%insert('none', [real(real64) ::])
    call random_number(field)
    call store%insert('row', field(2, :))    ! not contiguous
    call batch%insert('in batch/bytes', [1_int8])
    call batch%insert('in batch/words', [2_int32])
    call batch%insert('in batch/longs', [3_int64])
    call batch%insert('in batch/floats', [4.0_real32])
    call batch%insert('in batch/doubles', [5.0_real64])
    call store%apply(batch)
    call store%at(then)
    call store%find('bytes', bytes)
    call expect(all(bytes == [(int(i, int8), i=-128, 127)]), 'bytes')
    call then%find('words', words)
    call expect(all(words == [huge(1_int32), -1_int32, 0_int32]) .and. size(words) == 3, 'words')
    call then%find('longs', longs)
    call expect(all(longs == [huge(1_int64), -huge(1_int64)]) .and. size(longs) == 2, 'longs')
    call store%find('floats', floats)
    call expect(all(transfer(floats, [1_int32]) == transfer([tiny(1.0_real32), 1.0_real32 / 3], [1_int32])), 'floats')
    call store%find('doubles', doubles)
    call expect(all(transfer(doubles, [1_int64]) == transfer([tiny(1.0_real64), 1.0_real64 / 3, zero / zero], [1_int64])), &
                'doubles, a NaN too')
    call store%find('none', doubles)
    call expect(allocated(doubles) .and. size(doubles) == 0, 'an empty array is there')
    call then%find('row', doubles)
    call expect(all(transfer(doubles, [1_int64]) == transfer(field(2, :), [1_int64])) .and. size(doubles) == 100, 'a row')
    call then%find('in batch/bytes', bytes)
    call then%find('in batch/words', words)
    call then%find('in batch/longs', longs)
    call then%find('in batch/floats', floats)
    call then%find('in batch/doubles', doubles)
    call expect(bytes(1) == 1 .and. words(1) == 2 .and. longs(1) == 3 .and. nint(floats(1)) == 4 &
                .and. nint(doubles(1)) == 5, 'batch')
  end subroutine

  subroutine what_is_not_there_is_not_allocated()
    type(icecore_store) :: store
    character(len=:), allocatable :: value
    real(real64), allocatable :: numbers(:)
    integer :: stat
    call store%open(path)
    value = 'before'
    numbers = [1.0_real64]
    call store%find('nothing', value, stat=stat)
    call expect(.not. allocated(value) .and. stat == ICECORE_OK, 'text')
    call store%find('nothing', numbers, stat=stat)
    call expect(.not. allocated(numbers) .and. stat == ICECORE_OK, 'an array')
    call expect(.not. store%contains('nothing'), 'contains')
  end subroutine

  subroutine a_snapshot_never_sees_later_writes()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then, numbered
    character(len=:), allocatable :: value
    integer(icecore_version) :: version, written
    call store%open(path)
    call store%insert('bias', '0.5', version=written)
    call store%tag('epoch-1', version=version)
    call expect(written == version .and. store%clock() == version + 1, 'the write belongs to the version that the tag closed')
    call store%insert('bias', '0.7')
    call store%remove('bias')
    call store%at(then, tag='epoch-1')
    call store%at(numbered, version=version)
    call expect(then%version() == version .and. numbered%version() == version, 'version')
    call then%find('bias', value)
    call expect(value == '0.5', 'by tag')
    call numbered%find('bias', value)
    call expect(value == '0.5' .and. then%contains('bias') .and. .not. store%contains('bias'), 'by number')
    call store%close()
    call store%open(path)
    call store%at(then, tag='epoch-1')
    call then%find('bias', value)
    call expect(value == '0.5', 'after reopening')
  end subroutine

  subroutine a_batch_is_one_instant()
    type(icecore_store) :: store
    type(icecore_batch) :: batch
    character(len=:), allocatable :: value
    integer(icecore_version) :: version
    call store%open(path)
    call store%apply(batch, version)
    call expect(version == 0, 'a batch without operations')
    call store%insert('old', '1')
    call batch%insert('a', '1')
    call batch%insert('b', '2')
    call batch%remove('old')
    call expect(.not. store%contains('a'), 'nothing before it is applied')
    call store%apply(batch, version)
    call expect(version == store%clock() .and. store%contains('a') .and. store%contains('b') &
                .and. .not. store%contains('old'), 'all')
    call batch%clear()
    call batch%insert('b', '3')
    call store%apply(batch)
    call store%find('b', value)
    call expect(value == '3', 'again')
  end subroutine

  function walked(cursor) result(text)
    type(icecore_cursor), intent(inout) :: cursor
    character(len=:), allocatable :: text, key, value
    text = ''
    do while (cursor%next(key, value))
      text = text // key // '=' // value // ' '
    end do
    call expect(.not. cursor%next(key), 'past the end it stays')
  end function

  subroutine cursors_walk_bounds_and_prefixes()
    type(icecore_store) :: store
    type(icecore_snapshot) :: now
    type(icecore_cursor) :: cursor
    integer :: stat
    character(len=500) :: message
    call store%open(path)
    call store%insert('a', '1')
    call store%insert('b/1', '2')
    call store%insert('b/2', '3')
    call store%insert('c', '4')
    call store%at(now)
    call now%cursor(cursor)
    call expect(walked(cursor) == 'a=1 b/1=2 b/2=3 c=4 ', 'all')
    call now%cursor(cursor, prefix='b/')
    call expect(walked(cursor) == 'b/1=2 b/2=3 ', 'a prefix')
    call now%cursor(cursor, from='b/2')
    call expect(walked(cursor) == 'b/2=3 c=4 ', 'from')
    call now%cursor(cursor, from='b', to='b/2')
    call expect(walked(cursor) == 'b/1=2 ', 'from and to')
    call now%cursor(cursor, prefix='x')
    call expect(walked(cursor) == '', 'none')
    call now%cursor(cursor, prefix='b', to='c', stat=stat, message=message)
    call expect(stat == ICECORE_INVALID_ARGUMENT .and. index(message, 'prefix or bounds') > 0, 'both')
  end subroutine

  subroutine histories_walk_both_ways()
    type(icecore_store) :: store
    type(icecore_history) :: history
    integer(icecore_version) :: version
    character(len=:), allocatable :: value
    character(len=200) :: text
    integer :: way
    call store%open(path)
    call store%insert('key', 'one')
    call store%tag()
    call store%remove('key')
    call store%tag()
    call store%insert('key', 'three')
    do way = 1, 2
      text = ''
      call store%history('key', history, oldest_first=way == 2)
      do while (history%next(version, value))
        if (.not. allocated(value)) value = 'gone'
        write (text(len_trim(text) + 1:), '(i0,2a)') version, value, ','
      end do
      call expect(text == merge('3three,2gone,1one,', '1one,2gone,3three,', way == 1), trim(text))
    end do
    call store%history('never', history)
    call expect(.not. history%next(version, value), 'a key without history')
  end subroutine

  subroutine differences_name_what_changed()
    type(icecore_store) :: store
    type(icecore_diff) :: diff
    character(len=:), allocatable :: key, before, after, text
    integer(icecore_version) :: first, second
    call store%open(path)
    call store%insert('changed', '1')
    call store%insert('removed', '2')
    call store%insert('same', '3')
    call store%tag(version=first)
    call store%insert('added', '4')
    call store%insert('changed', '5')
    call store%remove('removed')
    call store%tag(version=second)
    call store%diff(first, second, diff)
    text = ''
    do while (diff%next(key, before, after))
      if (.not. allocated(before)) before = '-'
      if (.not. allocated(after)) after = '-'
      text = text // key // before // after // ' '
    end do
    call expect(text == 'added-4 changed15 removed2- ', text)
    call store%diff(first, second, diff, from='b', to='r')
    call expect(diff%next(key, before, after), 'bounds')
    call expect(key == 'changed', 'the key within the bounds')
    call expect(.not. diff%next(key, before, after), 'only these')
  end subroutine

  subroutine tags_keep_name_note_and_time()
    type(icecore_store) :: store
    integer(icecore_version) :: version, found
    integer(int64) :: time_ns
    character(len=:), allocatable :: note
    call store%open(path)
    call store%tag('first', note='loss 0.5', version=version)
    call store%tag('second')
    call store%find_tag('first', found, note, time_ns)
    call expect(found == version .and. note == 'loss 0.5' .and. time_ns > 1500000000000000000_int64, 'first')
    call store%find_tag('second', found, note)
    call expect(found == version + 1 .and. note == '', 'without a note')
    call store%find_tag('third', found)
    call expect(found == 0, 'none')
  end subroutine

  subroutine conditional_writes_tell_what_they_did()
    type(icecore_store) :: store
    integer(icecore_version) :: version
    character(len=:), allocatable :: value
    call store%open(path)
    call store%insert_new('key', 'first', version)
    call expect(version == 1, 'it was not there')
    call store%insert_new('key', 'second', version)
    call store%find('key', value)
    call expect(version == 0 .and. value == 'first', 'it was there')
    call store%remove('key', version)
    call expect(version == 1, 'it is removed')
    call store%remove('key', version)
    call expect(version == 0, 'it is gone')
    call store%sync()
  end subroutine

  subroutine a_store_is_opened_as_it_was_asked()
    type(icecore_store) :: store, other
    integer :: stat
    character(len=500) :: message
    call store%open(path, creation=ICECORE_OPEN_EXISTING, stat=stat, message=message)
    call expect(stat == ICECORE_NO_SUCH_STORE .and. index(message, trim(path)) > 0 .and. .not. store%is_open(), 'none there')
    call store%open(path, creation=ICECORE_CREATE_NEW, index=ICECORE_INDEX_PERSISTENT, durability=ICECORE_DURABILITY_NONE)
    call store%insert('key', 'value')
    call store%open(path, stat=stat, message=message)
    call expect(stat == ICECORE_INVALID_ARGUMENT .and. index(message, 'close it first') > 0, 'twice in one object')
    call other%open(path, stat=stat)
    call expect(stat == ICECORE_LOCKED, 'twice')
    call store%close()
    call other%open(path, creation=ICECORE_CREATE_NEW, stat=stat)
    call expect(stat == ICECORE_STORE_EXISTS, 'it exists')
    call other%open(path, access=ICECORE_READ_ONLY)
    call other%insert('key', 'other', stat=stat)
    call expect(stat == ICECORE_IS_READ_ONLY .and. other%contains('key'), 'for reading')
    call store%open(trim(path) // achar(0) // 'x', stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'a path with char(0)')
  end subroutine

  subroutine errors_have_a_number_and_a_message()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    real(real64), allocatable :: numbers(:)
    character(len=500) :: message
    integer :: stat
    call store%open(path)
    call store%tag('once')
    call store%tag('once', stat=stat, message=message)
    call expect(stat == ICECORE_TAG_EXISTS .and. index(message, 'once') > 0, 'a tag twice')
    call store%at(then, tag='never', stat=stat)
    call expect(stat == ICECORE_UNKNOWN_TAG, 'an unknown tag')
    call store%at(then, version=99_int64, stat=stat)
    call expect(stat == ICECORE_VERSION_NOT_CLOSED, 'a version of the future')
    call store%at(then, tag='once', version=1_int64, stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'a tag and a version')
    call store%insert(repeat('k', 65536), '', stat=stat)
    call expect(stat == ICECORE_KEY_TOO_LONG, 'a long key')
    call store%insert('text', 'seven b')
    call store%find('text', numbers, stat=stat, message=message)
    call expect(stat == ICECORE_INVALID_ARGUMENT .and. .not. allocated(numbers), 'seven bytes are no real64')
    call expect(index(message, '"text" has 7 bytes') > 0, message)
  end subroutine

  subroutine what_is_not_open_says_so()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    type(icecore_cursor) :: cursor
    type(icecore_history) :: history
    type(icecore_diff) :: diff
    character(len=:), allocatable :: text, another, other
    character(len=500) :: message
    integer(icecore_version) :: version
    integer :: stat
    logical :: there
    call store%insert('key', 'value', stat=stat, message=message)
    call expect(stat == ICECORE_CLOSED .and. message == 'the store is not open: open it first', 'store')
    call store%find('key', text, stat=stat)
    call expect(stat == ICECORE_CLOSED, 'find')
    call then%find('key', text, stat=stat)
    call expect(stat == ICECORE_CLOSED .and. then%version() == 0, 'snapshot')
    there = cursor%next(text, stat=stat)
    call expect(.not. there .and. stat == ICECORE_CLOSED, 'cursor')
    there = history%next(version, text, stat=stat)
    call expect(.not. there .and. stat == ICECORE_CLOSED, 'history')
    there = diff%next(text, another, other, stat=stat)
    call expect(.not. there .and. stat == ICECORE_CLOSED, 'diff')
    call store%close(stat=stat)
    call expect(stat == ICECORE_OK, 'closing what is not open does nothing')
  end subroutine

  subroutine objects_outlive_their_store()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    type(icecore_cursor) :: cursor
    character(len=:), allocatable :: key
    integer :: stat
    logical :: there
    call store%open(path)
    call store%insert('key', 'value')
    call store%at(then)
    call then%cursor(cursor)
    call store%close()
    there = cursor%next(key, stat=stat)
    call expect(.not. there .and. stat == ICECORE_CLOSED, 'a cursor of a closed store')
    call store%open(path)
    call expect(store%contains('key'), 'the file is free again')
  end subroutine

  subroutine versions_that_are_not_kept_expire()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    type(icecore_retention) :: kept
    type(icecore_compaction_report) :: told
    character(len=:), allocatable :: value
    integer :: i, stat
    call store%open(path)
    do i = 1, 9
      call store%insert('key', achar(iachar('0') + i))
      call store%tag()
    end do
    call store%get_retention(kept)
    call expect(.not. kept%tagged .and. kept%newest == 0, 'all are kept')
    call store%close()
    call icecore_compact(path, told, only_if_expiring=.true.)
    call expect(.not. told%packed .and. told%strata == 0, 'nothing expires yet')
    call store%open(path)
    call store%set_retention(icecore_retention(newest=2, younger_than_seconds=0, hourly=3, weekly=5))
    call store%get_retention(kept)
    call expect(kept%newest == 2 .and. kept%hourly == 3 .and. kept%daily == 0 .and. kept%weekly == 5, 'as it was set')
    call store%close()
    call icecore_compact(path, told, dry_run=.true., threads=1)
    call expect(.not. told%packed .and. told%versions_expired == 7 .and. told%records_dropped == 7, 'what would go')
    call icecore_compact(path, told, dry_run=.true., only_if_expiring=.true.)
    call expect(.not. told%packed .and. told%versions_expired == 7, 'what would expire')
    call store%open(path)
    call expect(.not. store%is_expired(7_int64), 'nothing has gone')
    call store%close()
    call icecore_compact(path, told, compression_level=3, only_if_expiring=.true.)
    call expect(told%packed .and. told%versions_expired == 7 .and. told%records == 2 .and. told%strata == 1, 'what went')
    call expect(told%erased .and. told%up_to == 9 .and. told%keys == 1 .and. told%bytes_written > 0, 'the rest of it')
    call store%open(path)
    call expect(store%is_expired(7_int64) .and. .not. store%is_expired(8_int64), 'seven have expired')
    call store%at(then, version=7_int64, stat=stat)
    call expect(stat == ICECORE_VERSION_EXPIRED, 'an expired version')
    call store%at(then, version=8_int64)
    call then%find('key', value)
    call expect(value == '8', 'a version that is kept')
    call store%close()
    call icecore_compact(path, told, whole=.true.)
    call expect(told%packed, 'whole packs once more what is compressed')
  end subroutine

  subroutine a_version_that_is_held_does_not_expire()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    type(icecore_hold), allocatable :: all(:)
    type(icecore_compaction_report) :: told
    character(len=:), allocatable :: value
    character(len=500) :: message
    integer(icecore_version) :: version
    integer :: i, stat
    call store%open(path)
    call store%holds(all)
    call expect(allocated(all) .and. size(all) == 0, 'none is held')
    do i = 1, 5
      call store%insert('key', achar(iachar('0') + i))
      call store%tag()
    end do
    call store%insert('key', 'open')
    call store%hold('now', version=version)
    call expect(version == 6 .and. store%clock() == 7, 'the open version is closed and held')
    call store%hold('a paper ', at=2_int64)
    call store%set_retention(icecore_retention(newest=1))
    call store%holds(all)
    call expect(size(all) == 2, 'two are held')
    call expect(all(1)%name == 'a paper ' .and. len(all(1)%name) == 8 .and. all(1)%version == 2, 'by version')
    call expect(all(2)%name == 'now' .and. all(2)%version == 6 .and. all(2)%created_ns > 0, 'the second one')
    call store%hold('now', at=3_int64, version=version, stat=stat, message=message)
    call expect(stat == ICECORE_QUERY_EXISTS .and. index(message, 'now') > 0 .and. version == 0, 'the name is taken')
    call store%hold('later', at=99_int64, stat=stat)
    call expect(stat == ICECORE_VERSION_NOT_CLOSED, 'a version to come')
    call store%hold('later', at=-1_int64, stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'a negative version')
    call store%hold('', stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'an empty name')
    call store%release('a paper', stat=stat)
    call expect(stat == ICECORE_NO_SUCH_QUERY, 'trailing blanks of names count')
    call store%close()
    call icecore_compact(path, told)
    call expect(told%packed .and. told%versions_expired == 4, 'all expire but those that are held')
    call store%open(path)
    call store%at(then, version=2_int64)
    call then%find('key', value)
    call expect(value == '2', 'what is held is there')
    call then%close()
    call store%release('a paper ')
    call store%holds(all)
    call expect(size(all) == 1 .and. all(1)%name == 'now', 'one is left')
    call store%close()
    call icecore_compact(path, told)
    call expect(told%versions_expired == 1, 'what was released expires')
    call store%hold('now', stat=stat)
    call expect(stat == ICECORE_CLOSED, 'no store to hold')
    call store%release('now', stat=stat)
    call expect(stat == ICECORE_CLOSED, 'no store to release')
    call store%holds(all, stat=stat)
    call expect(stat == ICECORE_CLOSED .and. .not. allocated(all), 'no store that holds')
  end subroutine

  subroutine a_store_is_packed_by_ranges()
    integer(int64) :: at_once
    integer :: stat
    at_once = written_by(0_int64)
    call expect(written_by(16384_int64) > at_once + 100 * 200, 'what was not packed yet is written twice')
    call icecore_compact(path, bytes_at_once=-1_int64, stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'bytes at once')
    call icecore_compact(path, bytes_per_second=-1_int64, stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'bytes per second')
  end subroutine

  ! What a compaction writes of a packed store of which a tenth was written anew.
  integer(int64) function written_by(bytes_at_once) result(bytes)
    integer(int64), intent(in) :: bytes_at_once
    type(icecore_store) :: store
    type(icecore_compaction_report) :: told
    integer :: i, unit
    open (newunit=unit, file=path)
    close (unit, status='delete')
    call store%open(path)
    do i = 1, 1000
      call store%insert(key_of(i), repeat('v', 200))
    end do
    call store%close()
    call icecore_compact(path, threads=1, bytes_at_once=16384_int64)
    call store%open(path)
    do i = 1, 1000, 10
      call store%insert(key_of(i), repeat('v', 200))
    end do
    call store%close()
    call icecore_compact(path, told, whole=.true., threads=1, bytes_at_once=bytes_at_once, &
                         bytes_per_second=2_int64**40)
    call expect(told%packed .and. told%strata == 1, 'it is packed')
    bytes = told%bytes_written
  end function

  character(len=4) function key_of(i)
    integer, intent(in) :: i
    write (key_of, '(i4.4)') i
  end function

  subroutine what_is_forgotten_is_in_no_version()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    type(icecore_forget_report) :: told
    integer(icecore_version) :: version
    character(len=:), allocatable :: note
    character(len=7) :: users(2)
    call store%open(path)
    call store%insert('user/1', 'a')
    call store%insert('user/22', 'b')
    call store%insert('list/1', 'c')
    call store%insert('blank ', 'd')
    call store%insert('blank', 'stays')
    call store%tag('all')
    users = [character(len=7) :: 'user/1', 'user/22']
    call store%forget(key='blank ', keys=users, prefix='list/', note='case 7', told=told)
    call expect(told%keys == 4 .and. told%tag == 'forgotten-1' .and. told%up_to == 1, 'what was forgotten')
    call store%find_tag('forgotten-1', version, note)
    call expect(version > 1 .and. note == '4 keys: case 7', 'its tag')
    call store%forget(prefixes=['no such '])
    call store%close()
    call icecore_compact(path)
    call store%open(path)
    call store%at(then, tag='all')
    call expect(.not. then%contains('user/1') .and. .not. then%contains('user/22'), 'the elements')
    call expect(.not. then%contains('list/1') .and. .not. then%contains('blank '), 'the prefix and the key')
    call expect(then%contains('blank'), 'the rest')
  end subroutine

  subroutine what_cannot_be_kept_or_packed_says_why()
    type(icecore_store) :: store
    type(icecore_retention) :: kept
    character(len=500) :: message
    integer :: stat
    call store%set_retention(kept, stat=stat, message=message)
    call expect(stat == ICECORE_CLOSED .and. index(message, 'not open') > 0, 'no store')
    call store%get_retention(kept, stat=stat)
    call expect(stat == ICECORE_CLOSED, 'no store to ask')
    call store%forget(key='key', stat=stat)
    call expect(stat == ICECORE_CLOSED, 'no store to forget')
    call expect(.not. store%is_expired(1_int64, stat=stat) .and. stat == ICECORE_CLOSED, 'no store that expires')
    call icecore_compact(path, stat=stat, message=message)
    call expect(stat == ICECORE_NO_SUCH_STORE .and. index(message, trim(path)) > 0, 'nothing to pack')
    call store%open(path)
    call icecore_compact(path, stat=stat)
    call expect(stat == ICECORE_LOCKED, 'it is open')
    kept%daily = -1
    call store%set_retention(kept, stat=stat, message=message)
    call expect(stat == ICECORE_INVALID_ARGUMENT .and. index(message, 'negative') > 0, 'less than nothing')
    call store%forget(stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'nothing is named')
    call store%close()
    call icecore_compact(path, compression_level=20, stat=stat, message=message)
    call expect(stat == ICECORE_INVALID_ARGUMENT .and. index(message, 'compression_level') > 0, 'a level')
    call icecore_compact(path, threads=-1, stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'threads')
    call icecore_compact(trim(path) // achar(0) // 'x', stat=stat)
    call expect(stat == ICECORE_INVALID_ARGUMENT, 'a path with char(0)')
  end subroutine

  subroutine an_error_that_nobody_asks_for_ends_the_program()
    type(icecore_store) :: store
    type(icecore_snapshot) :: then
    call store%open(path)
    call store%at(then, tag='never')
    print '(a)', 'this is not reached'
  end subroutine
end program
