// Once AllocationSampled is enabled, the rest of each thread's allocation context goes unsampled.
//
// DOTNET_GCgen0size=4000000 dotnet run rest_of_context_unsampled.cs
//
// The exit code is 1 while that is so. Generation 0 has 64 MiB, so .NET collects only on request.
using System;
using System.Diagnostics.Tracing;
using System.Runtime.InteropServices;
using System.Threading;

class Samples : EventListener
{
    const EventKeywords AllocationSampling = (EventKeywords)0x80000000000;

    EventSource runtime;
    int count;

    public void Enable()
    {
        EnableEvents(runtime, EventLevel.Informational, AllocationSampling);
    }

    // The number of events since the last call.
    public int Take()
    {
        Thread.Sleep(500);  // Events arrive on another thread.
        return Interlocked.Exchange(ref count, 0);
    }

    protected override void OnEventSourceCreated(EventSource source)
    {
        if (source.Name == "Microsoft-Windows-DotNETRuntime")
            runtime = source;
    }

    protected override void OnEventWritten(EventWrittenEventArgs written)
    {
        if ((ulong)written.Payload[5] == Program.ObjectBytes)
            Interlocked.Increment(ref count);
    }
}

class Program
{
    // A context has 8 KiB: room for an empty array and for one of these.
    const int Length = 8000, Threads = 160;
    public const int ObjectBytes = 24 + Length;
    const double MeanBytes = 100 * 1024;

    [ThreadStatic] static object newest;
    static int asked, length, done;

    static void Allocate()
    {
        for (int next = 1; ; next++)
        {
            while (Volatile.Read(ref asked) < next)
                Thread.Sleep(1);
            newest = new byte[length];
            Interlocked.Increment(ref done);
        }
    }

    static void EachThreadAllocates(int arrayLength)
    {
        length = arrayLength;
        done = 0;
        Interlocked.Increment(ref asked);
        while (Volatile.Read(ref done) < Threads)
            Thread.Sleep(1);
    }

    static void EachThreadBeginsAContext()
    {
        GC.Collect();  // This ends all contexts.
        EachThreadAllocates(0);
    }

    [DllImport("libc")] static extern int puts(string line);

    static void Say(string when, int expected, int got)
    {
        puts("contexts started " + when + " enabling: expected " + expected.ToString()
            + " samples, got " + got.ToString());
    }

    static int Main()
    {
        int expected = (int)(Threads * (1 - Math.Exp(-ObjectBytes / MeanBytes)));
        for (int thread = 0; thread < Threads; thread++)
            new Thread(Allocate) { IsBackground = true }.Start();
        Samples samples = new Samples();
        EachThreadBeginsAContext();
        samples.Enable();
        EachThreadAllocates(Length);
        int before = samples.Take();
        EachThreadBeginsAContext();
        EachThreadAllocates(Length);
        Say("before", expected, before);
        Say("after", expected, samples.Take());
        return before < expected / 3 ? 1 : 0;
    }
}
