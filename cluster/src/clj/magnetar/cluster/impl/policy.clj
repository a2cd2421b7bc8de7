(ns magnetar.cluster.impl.policy
  "Which parts of an agreed view may act, by the policy for a split brain. Pure.

  Members are a vector, the oldest first. A part is a set of some of them: the ones that can be reached, or have agreed.

  Invariant: no two parts without a common member are both active, unless the policy is :allow, or there are 2n members
  or more with a static quorum of n."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def kinds
  "The policies."
  [:keep-majority :static-quorum :keep-oldest :allow])

(defn- majority?
  "More than half of the members, or half of them with the oldest one."
  [members part]
  (let [twice (* 2 (count part))
        n (count members)]
    (or (< n twice)
        (and (= n twice) (contains? part (first members))))))

(defn- oldest?
  "The part with the oldest member. If it is alone and there are two others or more, all the others together."
  [members part]
  (let [n (count members)]
    (if (contains? part (first members))
      (or (< n 3) (< 1 (count part)))
      (= (count part) (dec n) (max 2 (dec n))))))

(defn active?
  "May the part act for all the members? Singletons run in an active part only."
  [{:keys [kind quorum]} members part]
  (let [part (set (filter part members))]
    (and (boolean (seq part))
         (case kind
           :keep-majority (majority? members part)
           :static-quorum (<= (long quorum) (count part))
           :keep-oldest (oldest? members part)
           :allow true))))

(defn decides?
  "May the part change the view? As `active?`, except where there are fewer members than a static quorum: then all together."
  [{:keys [kind quorum] :as policy} members part]
  (if (and (= :static-quorum kind) (< 0 (count members) (long quorum)))
    (every? part members)
    (active? policy members part)))

(defn begins?
  "May nodes that know no view begin one?"
  [{:keys [kind quorum]} nodes]
  (or (not= :static-quorum kind)
      (<= (long quorum) (count nodes))))

(defn limited
  "As many of the members as there may be: with a static quorum of n, fewer than 2n."
  [{:keys [kind quorum]} members]
  (if (= :static-quorum kind)
    (vec (take (dec (* 2 (long quorum))) members))
    members))
