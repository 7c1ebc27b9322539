! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! fortran: the collective operations from Fortran, whose wrappers call MPI functions under other names than C does. Checks results.
!
!     mpif90 -O2 examples/mpi/fortran.f90 -o fortran && selvedge mpirun -n 4 ./fortran [exact]
!
! Any number of ranks. Ends with an error when a result is wrong. `exact`: sums have the bits of the ranks' order, as where our library carries the
! operations out. The parts: reductions, data, nonblocking, pairs, own (an operation of the program's own), comms, inter.
program fortran
  use mpi
  implicit none
  integer, parameter :: double = kind(1d0), lengths(4) = [1, 100, 3000, 40000], rounds = 260
  integer :: me, ranks, code
  logical :: exact
  character(len=16) :: word

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, word)
  exact = word == 'exact'

  call reductions()
  call data()
  call nonblocking()
  call pairs()
  call own()
  call comms()
  if (ranks > 1) call inter()

  call MPI_Barrier(MPI_COMM_WORLD, code)
  if (me == 0) then
    if (exact) then
      print '(i0, a)', ranks, " ranks: all results have the bits of the ranks' order"
    else
      print '(i0, a)', ranks, ' ranks: all right'
    end if
  end if
  call MPI_Finalize(code)

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    integer :: ignored
    if (holds) return
    print '(a, i0, a, i0, 2a)', 'rank ', me, ' of ', ranks, ': wrong: ', what
    flush (6)
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine expect

  ! An operand. With `exact` its elements have many magnitudes, so a sum shows its order; without, any order gives the same sum.
  elemental function operand(rank, i) result(value)
    integer, intent(in) :: rank, i
    real(double) :: value
    if (exact) then
      value = sin(real(1000 * rank + i, double)) * 10d0**mod(5 * rank + i, 12)
    else
      value = mod(31 * rank + i, 1000)
    end if
  end function operand

  ! The sum in the order of the ranks.
  elemental function total(i) result(value)
    integer, intent(in) :: i
    real(double) :: value
    integer :: rank
    value = operand(0, i)
    do rank = 1, ranks - 1
      value = value + operand(rank, i)
    end do
  end function total

  subroutine reductions()
    real(double), allocatable :: from(:), to(:), expected(:)
    integer :: at, n, i, first, counts(ranks), root
    do at = 1, size(lengths)
      n = lengths(at)
      root = mod(at, ranks)
      from = [(operand(me, i), i=1, n)]
      expected = [(total(i), i=1, n)]
      to = 0 * from
      call MPI_Allreduce(from, to, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
      call expect(all(to == expected), 'MPI_Allreduce')
      to = from
      call MPI_Allreduce(MPI_IN_PLACE, to, n, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, code)
      call expect(all(to == expected), 'MPI_Allreduce in place')
      to = 0 * from
      call MPI_Reduce(from, to, n, MPI_DOUBLE_PRECISION, MPI_SUM, root, MPI_COMM_WORLD, code)
      if (me == root) call expect(all(to == expected), 'MPI_Reduce')
      to = from
      if (me == root) then
        call MPI_Reduce(MPI_IN_PLACE, to, n, MPI_DOUBLE_PRECISION, MPI_SUM, root, MPI_COMM_WORLD, code)
        call expect(all(to == expected), 'MPI_Reduce in place')
      else
        call MPI_Reduce(from, to, n, MPI_DOUBLE_PRECISION, MPI_SUM, root, MPI_COMM_WORLD, code)
      end if
      counts = n / ranks
      counts(1) = n - (ranks - 1) * (n / ranks)
      first = sum(counts(1:me))
      to = 0 * from
      call MPI_Reduce_scatter(from, to, counts, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
      call expect(all(to(:counts(me + 1)) == expected(first + 1:first + counts(me + 1))), 'MPI_Reduce_scatter')
      if (n >= ranks) then
        call MPI_Reduce_scatter_block(from, to, n / ranks, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
        first = me * (n / ranks)
        call expect(all(to(:n / ranks) == expected(first + 1:first + n / ranks)), 'MPI_Reduce_scatter_block')
      end if
    end do
    if (me == 0) print '(a)', 'reductions: of up to 40000 elements, also in place'
  end subroutine reductions

  subroutine data()
    integer, allocatable :: own_part(:), all_parts(:), expected(:)
    integer :: at, n, i, root
    character(len=12) :: text
    do at = 1, size(lengths)
      n = lengths(at)
      root = mod(at, ranks)
      own_part = [(1000003 * me + i, i=1, n)]
      expected = [((1000003 * root + i, i=1, n), root=0, ranks - 1)]
      allocate (all_parts(n * ranks), source=0)
      call MPI_Allgather(own_part, n, MPI_INTEGER, all_parts, n, MPI_INTEGER, MPI_COMM_WORLD, code)
      call expect(all(all_parts == expected), 'MPI_Allgather')
      all_parts = 0
      all_parts(me * n + 1:(me + 1) * n) = own_part
      call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_parts, n, MPI_INTEGER, MPI_COMM_WORLD, code)
      call expect(all(all_parts == expected), 'MPI_Allgather in place')
      deallocate (all_parts)
      root = mod(at, ranks)
      call MPI_Bcast(own_part, n, MPI_INTEGER, root, MPI_COMM_WORLD, code)
      call expect(all(own_part == [(1000003 * root + i, i=1, n)]), 'MPI_Bcast')
      write (text, '(a, i0)') 'rank ', me
      call MPI_Bcast(text, len(text), MPI_CHARACTER, root, MPI_COMM_WORLD, code)
      read (text(6:), *) i
      call expect(i == root, 'MPI_Bcast of characters')
      call MPI_Barrier(MPI_COMM_WORLD, code)
    end do
    if (me == 0) print '(a)', 'data: broadcasts and allgathers, barriers'
  end subroutine data

  ! Outstanding operations of all kinds, which complete in any order.
  subroutine nonblocking()
    integer, parameter :: n = 500
    real(double), asynchronous :: from(n), sums(n, 3), to_root(n)
    integer, asynchronous :: one, parts(ranks), last
    integer :: requests(6), statuses(MPI_STATUS_SIZE, 6), i, round, largest
    logical :: flag
    do round = 1, 20
      from = [(operand(me, i), i=1, n)]
      sums = 0
      to_root = 0
      one = merge(round, -1, me == 0)
      call MPI_Iallreduce(from, sums(:, 1), n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(1), code)
      call MPI_Ibcast(one, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(2), code)
      call MPI_Ireduce(from, to_root, n, MPI_DOUBLE_PRECISION, MPI_SUM, ranks - 1, MPI_COMM_WORLD, requests(3), code)
      call MPI_Iallgather(me, 1, MPI_INTEGER, parts, 1, MPI_INTEGER, MPI_COMM_WORLD, requests(4), code)
      call MPI_Iallreduce(from, sums(:, 2), n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(5), code)
      call MPI_Ibarrier(MPI_COMM_WORLD, requests(6), code)
      ! A blocking operation after outstanding ones.
      call MPI_Allreduce(from, sums(:, 3), n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
      call MPI_Wait(requests(5), statuses(:, 1), code)
      flag = .false.
      do while (.not. flag)
        call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE, code)
      end do
      call MPI_Waitall(6, requests, statuses, code)
      call expect(all(requests == MPI_REQUEST_NULL), 'a request that is over')
      do i = 1, n
        call expect(all(sums(i, :) == total(i)), 'MPI_Iallreduce')
        if (me == ranks - 1) call expect(to_root(i) == total(i), 'MPI_Ireduce')
      end do
      call expect(one == round, 'MPI_Ibcast')
      call expect(all(parts == [(i, i=0, ranks - 1)]), 'MPI_Iallgather')
      call MPI_Iallreduce(me, last, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1), code)
      call MPI_Allreduce(me, largest, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, code)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, code)
      call expect(last == ranks - 1 .and. largest == last, 'MPI_Iallreduce of an integer')
    end do
    if (me == 0) print '(a)', 'nonblocking: several under way, beside those that wait'
  end subroutine nonblocking

  subroutine pairs()
    integer :: pair(2), least(2), most(2)
    real(double) :: wide(2), largest(2)
    pair = [abs(me - ranks / 2), me]
    call MPI_Allreduce(pair, least, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD, code)
    call MPI_Allreduce(pair, most, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, code)
    call expect(all(least == [0, ranks / 2]), 'MPI_MINLOC')
    call expect(all(most == [ranks / 2, 0]), 'MPI_MAXLOC')
    wide = [real(me, double), real(me, double)]
    call MPI_Allreduce(wide, largest, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, code)
    call expect(all(largest == ranks - 1), 'MPI_MAXLOC of doubles')
    if (me == 0) print '(a)', 'pairs: the least and the largest, and where they are'
  end subroutine pairs

  ! The larger of two, as a user-defined operation: the MPI carries it out.
  subroutine larger(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    integer, intent(in) :: in(n)
    integer, intent(inout) :: inout(n)
    if (datatype == MPI_INTEGER) inout = max(in, inout)
  end subroutine larger

  subroutine own()
    integer, asynchronous :: mine, later
    integer :: operation, largest, request
    call MPI_Op_create(larger, .true., operation, code)
    mine = 9 * me
    call MPI_Allreduce(7 * me, largest, 1, MPI_INTEGER, operation, MPI_COMM_WORLD, code)
    call MPI_Iallreduce(mine, later, 1, MPI_INTEGER, operation, MPI_COMM_WORLD, request, code)
    call MPI_Op_free(operation, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    call expect(largest == 7 * (ranks - 1) .and. later == 9 * (ranks - 1), "an operation of the program's own")
    if (me == 0) print '(a)', "own: an operation of the program's own"
  end subroutine own

  ! More communicators than a process may have aggregation groups, one after the other.
  subroutine comms()
    integer, asynchronous :: behind
    integer :: round, comm, part, members, expected, here, request
    do round = 1, rounds
      call MPI_Comm_dup(MPI_COMM_WORLD, comm, code)
      call MPI_Comm_split(comm, mod(me, 2), -me, part, code)
      call MPI_Allreduce(1, members, 1, MPI_INTEGER, MPI_SUM, part, code)
      expected = merge(ranks / 2, ranks - ranks / 2, mod(me, 2) == 1)
      call expect(members == expected, 'members of a part')
      call MPI_Comm_rank(part, here, code)
      call expect(here == (ranks - 1 - me) / 2, 'the order of a part')
      call MPI_Comm_free(part, code)
      ! A nonblocking duplicate, beside a blocking operation. It is freed while an operation is outstanding, where Open MPI's own operations crash.
      call MPI_Comm_idup(comm, part, request, code)
      call MPI_Allreduce(1, members, 1, MPI_INTEGER, MPI_SUM, comm, code)
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
      call expect(members == ranks, 'members of a copy')
      call MPI_Iallreduce(me, behind, 1, MPI_INTEGER, MPI_SUM, comm, request, code)
      if (exact) call MPI_Comm_free(comm, code)
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
      if (.not. exact) call MPI_Comm_free(comm, code)
      call expect(behind == ranks * (ranks - 1) / 2, 'the sum over a communicator that is freed')
      call MPI_Barrier(part, code)
      call MPI_Comm_free(part, code)
    end do
    if (me == 0) print '(a, i0, a)', 'comms: duplicated, split and freed ', rounds, ' times'
  end subroutine comms

  ! Two halves, and operations between them.
  subroutine inter()
    integer :: half, between, again, members, of_others, side, root, value, request, merged
    side = merge(1, 0, me >= ranks / 2)
    call MPI_Comm_split(MPI_COMM_WORLD, side, me, half, code)
    call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, merge(0, ranks / 2, side == 1), 5, between, code)
    call MPI_Comm_remote_size(between, of_others, code)
    call MPI_Comm_idup(between, again, request, code)
    call MPI_Allreduce(1, members, 1, MPI_INTEGER, MPI_SUM, between, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    call expect(members == of_others, 'members of the other side')
    value = 77 * me
    root = MPI_PROC_NULL
    if (side == 1) root = 0
    if (me == 0) root = MPI_ROOT
    if (me == 0) value = 4711
    call MPI_Bcast(value, 1, MPI_INTEGER, root, again, code)
    if (side == 1) call expect(value == 4711, 'MPI_Bcast to the other side')
    call MPI_Barrier(again, code)
    call MPI_Intercomm_merge(between, side == 1, merged, code)
    call MPI_Allreduce(1, members, 1, MPI_INTEGER, MPI_SUM, merged, code)
    call expect(members == ranks, 'members of both sides')
    call MPI_Comm_free(merged, code)
    call MPI_Comm_free(again, code)
    call MPI_Comm_free(between, code)
    call MPI_Comm_free(half, code)
    if (me == 0) print '(a)', 'inter: two halves'
  end subroutine inter
end program fortran
