(ns clojure.core.async
  "The names of core.async, bound to `magnetar.async`: for libraries that were written for core.async.

  Put magnetar-core-async on the class path instead of core.async. A program of your own better requires `magnetar.async`."
  (:refer-clojure :exclude [into map merge partition partition-by reduce take transduce])
  (:require
   [clojure.core.async.impl.buffers]
   [clojure.core.async.impl.channels]
   [clojure.core.async.impl.dispatch]
   [clojure.core.async.impl.ioc-macros]
   [clojure.core.async.impl.mutex]
   [clojure.core.async.impl.timers]
   [magnetar.async]
   [magnetar.compat.vars :as vars]))

(set! *warn-on-reflection* true)

;; Declared by name for tools that read without running: editors and linters.
(declare <! <!! >! >!! alts! alts!! alt! alt!! take! put! poll! offer! do-alt do-alts fn-handler ioc-alts! defblockingop
         chan promise-chan timeout buffer dropping-buffer sliding-buffer unblocking-buffer? close!
         go go-loop thread io-thread thread-call
         pipe pipeline pipeline-blocking pipeline-async split merge map take into reduce transduce
         onto-chan! onto-chan!! onto-chan to-chan! to-chan!! to-chan
         Mux muxch* Mult tap* untap* untap-all* mult tap untap untap-all
         Pub sub* unsub* unsub-all* pub sub unsub unsub-all
         Mix admix* unmix* unmix-all* toggle* solo-mode* mix admix unmix unmix-all toggle solo-mode
         map< map> filter< filter> remove< remove> mapcat< mapcat> unique partition partition-by)

(vars/show 'magnetar.async 'clojure.core.async)
