// The sampling sessions of the target `dotnet`.
//
// A session of the diagnostics socket has a thread that streams its events, which sleeps for 100 ms
// between two looks, and the session's end waits for it. A session with a file has no such thread:
// its end writes all events. (dotnet/runtime, ep-session.c: streaming_thread, ep_session_disable.)
// So the mutator calls what the core library calls for its own sessions. It is internal there.
using System;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.InteropServices;

unsafe delegate ulong Enabled(
    char* file, int format, uint bufferMiB, Provider* providers, uint count);
delegate void Disabled(ulong session);

// What the runtime reads of a provider: EventPipeProviderConfigurationNative.
unsafe struct Provider
{
    public char* name;
    public ulong keywords;
    public uint level;
    public char* filter;
}

unsafe partial class Mutator
{
    const string Internals = "System.Diagnostics.Tracing.EventPipeInternal";
    const int NettraceFormat = 1;
    const uint BufferMiB = 16, Informational = 4;
    const ulong SamplingKeyword = 0x80000000000;

    static char* samplesFile;
    static Provider* provider;
    static Enabled enable;
    static Disabled disable;

    // All that sessions need, so that none of them allocates an object.
    static void PrepareSessions()
    {
        samplesFile = (char*)Marshal.StringToHGlobalUni("/proc/self/fd/1");
        provider = (Provider*)malloc(sizeof(Provider));
        provider->name = (char*)Marshal.StringToHGlobalUni("Microsoft-Windows-DotNETRuntime");
        provider->keywords = SamplingKeyword;
        provider->level = Informational;
        provider->filter = null;
        enable = (Enabled)CallerOf("Enable", typeof(Enabled));
        disable = (Disabled)CallerOf("Disable", typeof(Disabled));
    }

    // The session, or 0 if the runtime refuses it or its core library has no such method.
    static long EnableSampling()
    {
        return enable == null ? 0 : (long)enable(samplesFile, NettraceFormat, BufferMiB, provider, 1);
    }

    // A delegate that calls this method of the core library, the one that takes no array or span.
    // Null if there is none.
    static Delegate CallerOf(string name, Type type)
    {
        MethodInfo signature = type.GetMethod("Invoke");
        ParameterInfo[] parameters = signature.GetParameters();
        Type[] types = new Type[parameters.Length];
        for (int place = 0; place < types.Length; place++)
            types[place] = parameters[place].ParameterType;
        Module core = typeof(object).Module;
        var caller = new DynamicMethod(name, signature.ReturnType, types, core, true);
        ILGenerator code = caller.GetILGenerator();
        for (int place = 0; place < types.Length; place++)
            code.Emit(OpCodes.Ldarg, place);
        MethodInfo called = Internal(name, types.Length);
        if (called == null)
            return null;
        code.Emit(OpCodes.Call, called);
        code.Emit(OpCodes.Ret);
        return caller.CreateDelegate(type);
    }

    static MethodInfo Internal(string name, int parameters)
    {
        Type internals = typeof(object).Assembly.GetType(Internals);
        if (internals == null)
            return null;
        foreach (MethodInfo method in internals.GetMethods(BindingFlags.Static | BindingFlags.NonPublic))
            if (method.Name == name && method.GetParameters().Length == parameters)
                return method;
        return null;
    }
}
